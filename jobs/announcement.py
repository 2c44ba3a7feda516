"""What a new job will do, said before it does it."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from jobs.tables import counted
from pipeline.ingest.sample import Sample
from pipeline.order import Order
from pipeline.prompts.shapes import shape_of
from pipeline.spec import JobSpec

if TYPE_CHECKING:
    from pipeline.foretelling import Foretold

#: Of names in a row; the others are counted.
_NAMED = 3


def announcement(spec: JobSpec) -> str:
    """One sentence. Nothing is read for it, so the rows are not counted yet."""
    return f"{_rows(spec)} will get {_answers(spec)} from {spec.model}; its prompt is {_prompt(spec)}."


def same_for_all(spec: JobSpec, columns: Sequence[str]) -> str | None:
    """A warning where no column's text stands in a prompt or behind it; `columns` are those that there are."""
    same = [place for place, asked in enumerate(spec.asked) if not (shape_of(asked).columns or asked.beside)]
    if not same:
        return None
    of = f" of {_listed([spec.questions[place].name for place in same])}" if spec.questions else ""
    left, right = ("{{ ", " }}") if spec.asked[same[0]].template == "jinja" else ("{", "}")
    named = _listed([f"{left}{column}{right}" for column in columns])
    why = f"Every row gets the same question: the prompt{of} has no column in it."
    return f"{why} Write one where its text belongs: {named}."


def _answers(spec: JobSpec) -> str:
    if not spec.questions:
        return _task(spec)
    pairs = zip(spec.questions, spec.asked, strict=True)
    each = "; ".join(f"{question.name}, {_task(asked)}" for question, asked in pairs)
    return f"{counted(len(spec.questions), 'answer')} ({each})"


def sorted_first(order: Order) -> str:
    """What becomes of the rows before they are answered, where that pays."""
    return (
        f"Rows are answered sorted by {order.column} first: then about {order.sorted:.0%} of the prompts' text need "
        f"not be computed again, in the input's order {order.kept:.0%}. Results keep the input's order; with "
        "--keep-order the rows do, too."
    )


def foretold_reuse(foretold: "Foretold") -> str:
    """What need not be computed, and which rows show that."""
    rows = looked_at(foretold.sample)
    return f"About {foretold.reused:.0%} of all prompt tokens will be reused, by a look at {rows}."


def looked_at(sample: Sample) -> str:
    """`all 20 rows`, `1,000 rows from all over the table`, `1,000 of the first 90,000 rows`."""
    rows = counted(len(sample.rows), "row")
    if sample.is_whole:
        return f"all {rows}" if len(sample.rows) == sample.n_rows else f"{rows} from all over the table"
    of_first = f"the first {counted(sample.n_rows, 'row')}"
    return of_first if len(sample.rows) == sample.n_rows else f"{len(sample.rows):,} of {of_first}"


def _rows(spec: JobSpec) -> str:
    inputs = "the SELECT" if spec.sql is not None else _listed([Path(name).name for name in spec.inputs])
    taken = [f"where {spec.where}"] if spec.where is not None else []
    taken += [f"in a sample of {spec.sample}"] if spec.sample is not None else []
    taken += [f"up to the {counted(spec.limit, 'row')} of --limit"] if spec.limit is not None else []
    return " ".join([f"Each row of {'standard input' if inputs == '-' else inputs}", *taken])


def _task(spec: JobSpec) -> str:
    if spec.choices is not None:
        labels = _listed(spec.choices)
        return f"those of the labels {labels} that hold" if spec.multi_label else f"one of the labels {labels}"
    if spec.score is not None:
        return f"the likelihood of its {spec.score}"
    if spec.embed is not None:
        return "a vector"
    return f"{counted(spec.n, 'answer')} of up to {counted(spec.max_tokens, 'token')}{' each' if spec.n > 1 else ''}"


def _prompt(spec: JobSpec) -> str:
    if spec.tokens_column is not None:
        return f"the token ids in {spec.tokens_column}"
    columns = list(dict.fromkeys(column for asked in spec.asked for column in shape_of(asked).columns))
    kind = "a text" if spec.raw else "a chat"
    kind += " by a Jinja template" if spec.template == "jinja" else ""
    examples = f", behind {counted(len(spec.examples), 'example')}" if spec.examples else ""
    return f"{kind} with {_listed(columns)} in it{examples}" if columns else f"{kind} without a column{examples}"


def _listed(names: Sequence[str]) -> str:
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")
