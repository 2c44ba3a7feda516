"""Some of a job's rows, encoded: what can be told of a job, and tried out, before it is one."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from pipeline.asking import Asking
from pipeline.costs import Costs
from pipeline.errors import SpecError
from pipeline.prefix_tree import with_cuts
from pipeline.prompts.conversation import Shape
from pipeline.prompts.vocabulary import Vocabulary
from pipeline.rows import Asked, Completion, Prompt, Row
from pipeline.sharing import Sharing, foretell, share_reused
from pipeline.spec import JobSpec


@dataclass(frozen=True, slots=True)
class Excerpt:
    """Its rows are sorted into those that can be answered and those that cannot, each in the input's order.

    Where they are asked several questions, each question of a row counts for itself (rows.Questions).
    """

    prefix: tuple[int, ...]
    prompts: tuple[Prompt, ...]  #: at least one
    distinct: tuple[Prompt, ...]  #: of these, the ones that are computed
    failures: tuple[Completion, ...]
    neutralised: int  #: rows whose text held special tokens
    task: Asked

    def sharing(self, costs: Costs, batch_rows: int) -> Sharing:
        return foretell(self.prefix, with_cuts(self.distinct, costs, self.task, batch_rows), self.task)

    def reused(self, costs: Costs, batch_rows: int) -> float:
        """The share of all prompt tokens that need not be computed."""
        found = self.sharing(costs, batch_rows)
        return share_reused(found.prompt_tokens, len(self.prefix) + found.computed_tokens)


def encode_excerpt(
    spec: JobSpec, vocabulary: Vocabulary, context: int, rows: Sequence[Row], shape: Shape | None = None
) -> Excerpt:
    """With the job's own prompts, or others; `context` is the model's. Raises SpecError where none of the rows can be
    answered."""
    asking = Asking(spec, vocabulary, context, datetime.now().astimezone(), rows, shape)
    outcomes = asking.ask(rows)
    prompts = tuple(outcome for outcome in outcomes if isinstance(outcome, Prompt))
    failures = tuple(outcome for outcome in outcomes if isinstance(outcome, Completion))
    if not prompts:
        several = f"Of {len(rows):,} rows looked at, none can be answered. The first says"
        raise SpecError(f"{several if len(rows) > 1 else 'The only row cannot be answered'}: {failures[0].error}")
    return Excerpt(asking.prefix, prompts, tuple(asking.distinct(prompts)), failures, asking.neutralised, asking.task)
