"""What share of a job's prompt tokens will be reused, foretold from some of its rows before any of them is answered."""

from dataclasses import dataclass

from pipeline.costs import Costs
from pipeline.errors import SpecError
from pipeline.excerpt import encode_excerpt
from pipeline.ingest.inputs import Source
from pipeline.ingest.sample import Sample, read_sample
from pipeline.ingest.taking import Tally
from pipeline.order import Order
from pipeline.prompts.shapes import columns_of
from pipeline.prompts.vocabulary import Vocabulary
from pipeline.spec import JobSpec

#: Rows that are looked at. An input of fewer is known in full.
_SAMPLE_ROWS = 1000


@dataclass(frozen=True, slots=True)
class Foretold:
    reused: float  #: share of all prompt tokens
    sample: Sample


@dataclass(frozen=True, slots=True)
class Foreteller:
    """What can be told of rows before there is a model: `context` is the model's, `costs` those where it will be."""

    vocabulary: Vocabulary
    context: int
    costs: Costs
    batch_rows: int

    def foretell(self, spec: JobSpec, source: Source, order: Order | None) -> Foretold | None:
        """`order` is the one in which rows are answered, where they are sorted. None where no row can be looked at, or
        none of those that are can be answered. Raises InputError or TryAgain."""
        if source.is_stream:
            return None
        sample = look(spec, source)
        if not sample.rows:
            return None
        try:
            excerpt = encode_excerpt(spec, self.vocabulary, self.context, sample.rows)
        except SpecError:
            return None
        reused = excerpt.reused(self.costs, self.batch_rows)
        return Foretold(max(reused, order.sorted) if order is not None else reused, sample)


def look(spec: JobSpec, source: Source, tally: Tally | None = None) -> Sample:
    """Some rows of the job, from all over its input where that is cheap. Raises InputError or TryAgain."""
    return read_sample(source, columns_of(spec), _SAMPLE_ROWS, spec.limit, tally)
