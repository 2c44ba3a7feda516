"""The table of `pipeline results`: from each row only what a person looks for, the prompt's columns and the answer."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from jobs.tables import Column, print_table
from pipeline.ingest.paths import look_up
from pipeline.prompts.shapes import shape_of
from pipeline.rows import Status
from pipeline.spec import JobSpec
from pipeline.store.columns import result_columns
from pipeline.store.database import Database
from pipeline.store.export import Wanted, preview, wanted_schema
from pipeline.store.plain import cell
from pipeline.store.records import JobRecord

#: Of the columns that the prompt uses; the terminal is only so wide.
_INPUT_COLUMNS = 2
#: Of an embedding.
_NUMBERS = 3

_Cell = Callable[[Mapping[str, Any], Mapping[str, Any]], str]


def print_answers(database: Database, job: JobRecord, wanted: Wanted) -> None:
    """A line for each answer of these rows."""
    spec = JobSpec.model_validate_json(job.spec_json)
    names = [column.name for column in result_columns(job.spec_json)]
    rows = [_apart(row, names) for row in preview(database, job, wanted)]
    lines = [(values, answer) for values, result in rows for answer in _answers(result)]
    errors = [f"{name}_error" for name in job.questions] or ["error"]
    any_error = any(result[error] for _, result in rows for error in errors)
    layout = _layout(spec, any_error=any_error)
    print_table([column for column, _ in layout], [[cell(*line) for _, cell in layout] for line in lines])


def print_columns(database: Database, job: JobRecord, wanted: Wanted) -> None:
    """Those that were asked for by name, as they are."""
    schema = wanted_schema(database, job, wanted)
    columns = [Column(name, "text" if str(schema.field(name).type) == "string" else "number") for name in schema.names]
    print_table(columns, [[cell(value) or "" for value in row.values()] for row in preview(database, job, wanted)])


def rows_to_show(job: JobRecord, lines: int) -> int:
    """How many rows have so many answers; one at least."""
    return max(1, lines // JobSpec.model_validate_json(job.spec_json).n)


def _apart(row: Mapping[str, Any], names: list[str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The input's columns, and the result's under their own names, whatever a clash made of them in an export."""
    (_, row_id), *items = row.items()
    values, result = items[: -len(names)], items[-len(names) :]
    return dict(values), {"row_id": row_id} | dict(zip(names, (value for _, value in result), strict=True))


def _answers(result: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The row's one answer, or each of its samples with a status of its own."""
    samples = result.get("samples")
    if not samples:
        yield result
        return
    for sample_no, sample in enumerate(samples):
        status = Status.OK if sample["finish_reason"] == "stop" else Status.TRUNCATED
        yield result | {"sample": sample_no, "status": status, "output": sample["output"]}


def _layout(spec: JobSpec, *, any_error: bool) -> list[tuple[Column, _Cell]]:
    """The input may have a column that is called as one of ours is."""
    names = [question.name for question in spec.questions]
    found = _of_questions(names, any_error=any_error) if names else _of_answers(spec, any_error=any_error)
    return [*_of_rows(spec).items(), *found.items()]


def _of_rows(spec: JobSpec) -> dict[Column, _Cell]:
    layout: dict[Column, _Cell] = {}
    if spec.key is None:
        layout[Column("ROW", "number")] = lambda values, result: str(result["row_id"])
    else:
        layout[Column(spec.key)] = _of_input(spec.key)
    shown = [column for column in shape_of(spec).columns if column != spec.key][:_INPUT_COLUMNS]
    return layout | {Column(column, "text"): _of_input(column) for column in (*shown, *spec.beside)}


def _of_answers(spec: JobSpec, *, any_error: bool) -> dict[Column, _Cell]:
    layout: dict[Column, _Cell] = {}
    if spec.n > 1:
        layout[Column("SAMPLE", "number")] = lambda values, result: _text(result.get("sample"))
    layout[Column("STATUS")] = _of_result("status")
    if spec.score is not None:
        layout |= {Column(name.upper(), "number"): _number(name) for name in ("logprob", "perplexity")}
    elif spec.embed is not None:
        layout[Column("EMBEDDING", "text")] = _vector
    elif spec.choices is None:
        layout[Column("ANSWER", "text")] = _of_result("output")
    elif spec.multi_label:
        layout[Column("LABELS", "text")] = _holding
    else:
        layout[Column("LABEL")] = _of_result("label")
        layout[Column("SCORE", "number")] = _number("score")
    if any_error:
        layout[Column("ERROR", "text")] = _of_result("error")
    return layout


def _of_questions(names: list[str], *, any_error: bool) -> dict[Column, _Cell]:
    layout: dict[Column, _Cell] = {Column(name.upper(), "text"): _answer_to(name) for name in names}
    if any_error:
        layout[Column("ERROR", "text")] = lambda values, result: _errors(names, result)
    return layout


def _errors(names: list[str], result: Mapping[str, Any]) -> str:
    """Each once, with the questions that it was the end of."""
    errors = {name: error for name in names if (error := result[f"{name}_error"])}
    told = {error: ", ".join(name for name in errors if errors[name] == error) for error in errors.values()}
    return " ".join(f"{those}: {error}" for error, those in told.items())


def _answer_to(question: str) -> _Cell:
    """Or how it ended without one."""

    def shown(values: Mapping[str, Any], result: Mapping[str, Any]) -> str:
        answer = result[question]
        if answer is None:
            return _text(result[f"{question}_status"])
        if isinstance(answer, list):
            return _numbers(answer)
        return f"{answer:.2f}" if isinstance(answer, float) else str(answer)

    return shown


def _holding(values: Mapping[str, Any], result: Mapping[str, Any]) -> str:
    """The labels that hold, likeliest first, each with its probability."""
    probabilities = {score["label"]: score["probability"] for score in result["scores"] or ()}
    return ", ".join(f"{label} {probabilities[label]:.2f}" for label in result["labels"] or ())


def _of_input(column: str) -> _Cell:
    return lambda values, result: _text(look_up(values, column))


def _of_result(column: str) -> _Cell:
    return lambda values, result: _text(result[column])


def _vector(values: Mapping[str, Any], result: Mapping[str, Any]) -> str:
    return "" if result["embedding"] is None else _numbers(result["embedding"])


def _numbers(vector: list[float]) -> str:
    return f"{len(vector)} numbers: {', '.join(f'{number:.3f}' for number in vector[:_NUMBERS])}, …"


def _number(column: str) -> _Cell:
    return lambda values, result: "" if result[column] is None else f"{result[column]:.2f}"


def _text(value: object) -> str:
    return "" if value is None else str(value)
