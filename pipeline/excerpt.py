"""A job's first rows, encoded: what can be told of a job, and tried out, before it is one."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from pipeline.encoder import make_encoder, make_task
from pipeline.errors import SpecError
from pipeline.fitting import Fitting
from pipeline.means import Means
from pipeline.rows import Completion, Prompt, Row, Task
from pipeline.spec import JobSpec


@dataclass(frozen=True, slots=True)
class Excerpt:
    """Its rows are sorted into those that can be answered and those that cannot, each in the input's order."""

    prefix: tuple[int, ...]
    prompts: tuple[Prompt, ...]  #: at least one
    failures: tuple[Completion, ...]
    neutralised: int  #: rows whose text held special tokens
    task: Task


def encode_excerpt(spec: JobSpec, means: Means, rows: Sequence[Row]) -> Excerpt:
    """Raises SpecError where none of the rows can be answered."""
    encoder = make_encoder(spec, means.shape, means.vocabulary, datetime.now().astimezone(), rows)
    task = make_task(spec, encoder)
    fitting = Fitting(spec, means.shape, means.vocabulary, encoder, task, means.model.context)
    outcomes = [fitting.fit(row, outcome) for row, outcome in zip(rows, encoder.encode(rows), strict=True)]
    prompts = tuple(outcome for outcome in outcomes if isinstance(outcome, Prompt))
    failures = tuple(outcome for outcome in outcomes if isinstance(outcome, Completion))
    if not prompts:
        raise SpecError(f"None of the first {len(rows)} rows can be answered. The first says: {failures[0].error}")
    return Excerpt(encoder.prefix, prompts, failures, encoder.neutralised, task)
