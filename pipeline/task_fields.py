"""The fields of a job that say what is asked of a row; where it has several questions, each has them for itself."""

import dataclasses
import json
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from pipeline.rows import Sampling

NonEmpty = Annotated[str, Field(min_length=1)]


def _one_as_many(value: object) -> object:
    return (value,) if isinstance(value, str) else value


def _split_at_commas(value: object) -> object:
    return tuple(part.strip() for part in value.split(",")) if isinstance(value, str) else value


def _schema_as_text(value: object) -> object:
    """Always spelled alike. The order of its properties stays: it is that in which they are written."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"it is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise ValueError('it is no JSON schema, which is an object such as {"type": "object", "properties": ...}')
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"it holds what JSON has no form for: {error}") from error


Several = Annotated[tuple[NonEmpty, ...], BeforeValidator(_one_as_many)]
Labels = Annotated[tuple[NonEmpty, ...], BeforeValidator(_split_at_commas)]
JsonSchema = Annotated[str, BeforeValidator(_schema_as_text)]

#: Fields that say how tokens are picked; they have no meaning where none are.
_SAMPLING = tuple(field.name for field in dataclasses.fields(Sampling))
#: Of these, the ones that have a meaning only where tokens are drawn at random.
DRAWING = ("top_k", "top_p", "min_p", "seed")
#: All that has a meaning only where text is written.
WRITING = ("max_tokens", "stop", *_SAMPLING, "n", "logprobs", "json_schema", "regex", "grammar")
#: What a written answer may be held to.
SHAPES: tuple[Literal["json_schema", "regex", "grammar"], ...] = ("json_schema", "regex", "grammar")
#: What a row may be asked for instead of written text.
TASKS = ("choices", "score", "embed")
#: All that says how labels are compared.
COMPARING = ("length_normalize", "multi_label", "prior_correction")
