"""Stage 7: the columns that an export adds to those of the input, by what the job asked for."""

import io
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.json

from pipeline.store.asked import asked, question_names
from pipeline.store.column_types import unescaped
from pipeline.store.result_rows import NESTED

_RESULT_TYPES: dict[str, pa.DataType] = {
    "status": pa.string(),
    "output": pa.string(),
    "label": pa.string(),
    "score": pa.float64(),
    "logprob": pa.float64(),
    "perplexity": pa.float64(),
    "embedding": pa.list_(pa.float32()),
    "finish_reason": pa.string(),
    "error_type": pa.string(),
    "error": pa.string(),
    "prompt_tokens": pa.int64(),
    "reused_tokens": pa.int64(),
    "output_tokens": pa.int64(),
}
#: Those that some tasks fill and others do not.
_TASK_COLUMNS = ("output", "label", "score", "logprob", "perplexity", "embedding", "finish_reason")
#: What is asked for: of these, the first that the task fills.
_ANSWERS = ("label", "output", "logprob", "embedding")
_SCORE = {"label": pa.string(), "probability": pa.float64()}
_TOKEN = {"token_id": pa.int64(), "token": pa.string(), "logprob": pa.float64()}

#: Log-probabilities in memory at once, of rows that are written together: some hundred MB.
_LOGPROBS_AT_ONCE = 1 << 18
#: Of several thousand numbers each, as Python has them.
_EMBEDDINGS_AT_ONCE = 256
#: What a text that is scored may well have.
_SCORED_TOKENS = 1024
#: So many tokens of a sample's text, in all its copies, take as much memory as one log-probability; so does a sample.
_TOKENS_PER_LOGPROB = 64


@dataclass(frozen=True, slots=True)
class ResultColumn:
    """What a field of the answers to the question at `place` holds."""

    name: str
    kind: pa.DataType
    field: str
    place: int = 0


_ATTEMPT = ResultColumn("attempt", pa.int64(), "attempt")
_ANSWERED_AT = ResultColumn("answered_at", pa.timestamp("us", "UTC"), "created_at")


def result_columns(spec_json: str, width: int | None = None) -> list[ResultColumn]:
    """In order; those of tasks, samples and logprobs only where the job asked for them. Of several questions each has
    its answer under its own name, and under that and a field's name what else there is to it.

    `width` is that of the job's embeddings, where there is one.
    """
    names, each = question_names(spec_json), [_types(spec, width) for spec in asked(spec_json)]
    if not names:
        return [ResultColumn(name, kind, name) for name, kind in each[0].items()]
    return [
        column
        for place, (name, types) in enumerate(zip(names, each, strict=True))
        for column in _of_question(name, types, place)
    ]


def _of_question(name: str, types: dict[str, pa.DataType], place: int) -> Iterator[ResultColumn]:
    """Of several labels, all that hold are the answer, and not the likeliest one."""
    answer = "output" if "labels" in types else next(field for field in _ANSWERS if field in types)
    yield ResultColumn(name, types[answer], answer, place)
    for field, kind in types.items():
        # The one label that holds is the output, too.
        if field != answer and (field, answer) != ("output", "label"):
            yield ResultColumn(f"{name}_{field}", kind, field, place)


def _types(spec: dict[str, Any], width: int | None) -> dict[str, pa.DataType]:
    left_out = set(_TASK_COLUMNS) - set(_columns_of_task(spec))
    types = {name: kind for name, kind in _RESULT_TYPES.items() if name not in left_out}
    if "embedding" in types and width is not None:
        types["embedding"] = pa.list_(pa.float32(), width)
    if spec.get("multi_label"):
        types["labels"] = pa.list_(pa.string())
    if spec.get("choices") is not None:
        types["scores"] = pa.list_(pa.struct(_SCORE))
    if spec.get("on_too_long", "error") != "error":
        types["cut_tokens"] = pa.int64()
    if spec.get("json_schema") is not None:
        types["parsed"] = pa.string()
    if spec.get("reuse_results"):
        types["copied_from"] = pa.string()
    if spec.get("n", 1) > 1:
        types["samples"] = pa.list_(pa.struct(_sample(spec)))
    if spec.get("logprobs") is not None:
        types["logprobs"] = _logprobs(spec)
    return types


def nameable_columns(spec_json: str, width: int | None = None) -> dict[str, ResultColumn]:
    """All columns that may be asked for, by name."""
    first = [ResultColumn("row_id", pa.int64(), "row_id"), ResultColumn("key", pa.string(), "key")]
    last = [] if question_names(spec_json) else [_ATTEMPT, _ANSWERED_AT]
    return {column.name: column for column in [*first, *result_columns(spec_json, width), *last]}


def columns_behind(names: Sequence[str]) -> list[str]:
    """What must be read for them: `row_id`, and of labels also what tells an answer without any from none."""
    behind = dict.fromkeys(["row_id", *names])
    return list(behind | {"scores": None} if "labels" in behind else behind)


def result_column(name: str, kind: pa.DataType, found: Mapping[str, Sequence[Any]]) -> pa.Array:
    """Of columns as the database keeps them. Half of a surrogate pair, which no file takes, becomes U+FFFD."""
    values = found[name]
    if name == "embedding":
        return pa.array([None if value is None else np.frombuffer(value, "<f4") for value in values], kind)
    if name == "created_at":
        return pa.array([None if value is None else round(value * 1_000_000) for value in values], kind)
    if name in NESTED or pa.types.is_string(kind):
        values = unescaped(values)
    if name in NESTED and name != "labels" and (read := _read(values, kind)) is not None:
        return read
    if name in NESTED:
        values = json.loads(f"[{','.join(value or 'null' for value in values)}]")
    if name == "labels":  # that none of the labels holds is an answer too
        answered = found["scores"]
        values = [[] if value is None and answered[at] is not None else value for at, value in enumerate(values)]
    try:
        return pa.array(values, kind)
    except UnicodeEncodeError:
        return pa.array(_whole(list(values)), kind)


def _read(values: Sequence[str | None], kind: pa.DataType) -> pa.Array | None:
    """JSON by Arrow's own reader, several times as quick as by way of Python's objects. None for what it does not take:
    halves of surrogate pairs, and numbers that are not finite."""
    try:
        lines = "\n".join(f'{{"it":{value or "null"}}}' for value in values).encode()
        read = pyarrow.json.read_json(
            io.BytesIO(lines),
            pyarrow.json.ReadOptions(use_threads=False, block_size=len(lines) + 1),
            pyarrow.json.ParseOptions(explicit_schema=pa.schema([("it", kind)]), unexpected_field_behavior="ignore"),
        )
    except (UnicodeEncodeError, pa.ArrowInvalid):
        return None
    return read.column("it").combine_chunks()


def rows_at_once(spec_json: str, most: int) -> int:
    """How many rows, of `most` that there are, fit into memory with all that the job asked for."""
    return min(_at_once(spec, most) for spec in asked(spec_json))


def _at_once(spec: dict[str, Any], most: int) -> int:
    if spec.get("embed") is not None:
        return max(1, min(most, _EMBEDDINGS_AT_ONCE))
    samples: int = spec.get("n", 1)
    logprobs: int | None = spec.get("logprobs")
    if samples == 1 and logprobs is None:
        return most
    tokens: int = spec["max_tokens"] if spec.get("score") is None else _SCORED_TOKENS
    of_sample = 1 + tokens // _TOKENS_PER_LOGPROB if logprobs is None else tokens * (1 + logprobs)
    return max(1, min(most, _LOGPROBS_AT_ONCE // (samples * of_sample)))


def _columns_of_task(spec: dict[str, Any]) -> tuple[str, ...]:
    if spec.get("choices") is not None:
        return ("output", "label", "score", "finish_reason")
    if spec.get("score") is not None:
        return ("logprob", "perplexity")
    if spec.get("embed") is not None:
        return ("embedding",)
    return ("output", "finish_reason")


def _sample(spec: dict[str, Any]) -> dict[str, pa.DataType]:
    fields = {"output": pa.string(), "finish_reason": pa.string(), "output_tokens": pa.int64()}
    return fields if spec.get("logprobs") is None else fields | {"logprobs": _logprobs(spec)}


def _logprobs(spec: dict[str, Any]) -> pa.DataType:
    return pa.list_(pa.struct(_TOKEN | ({"top": pa.list_(pa.struct(_TOKEN))} if spec["logprobs"] else {})))


def _whole(value: Any) -> Any:
    match value:
        case str():
            return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
        case list():
            return [_whole(inner) for inner in value]
        case dict():
            return {name: _whole(inner) for name, inner in value.items()}
    return value
