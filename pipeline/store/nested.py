"""Stage 6: what a result holds within one column, samples, labels and probabilities: JSON text, and back."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pipeline.rows import LabelScore, LikelyToken, Sample, TokenLogprob

Part = Sample | TokenLogprob | LabelScore | str


def to_json(parts: Sequence[Part]) -> str | None:
    """A list of objects under the names of the fields; None where there is nothing."""
    if not parts:
        return None
    return json.dumps(parts, default=_fields, ensure_ascii=False, separators=(",", ":"))


def samples(text: str | None) -> tuple[Sample, ...]:
    return tuple(Sample(**part | {"logprobs": _logprobs(part["logprobs"])}) for part in json.loads(text or "[]"))


def logprobs(text: str | None) -> tuple[TokenLogprob, ...]:
    return _logprobs(json.loads(text or "[]"))


def labels(text: str | None) -> tuple[str, ...]:
    return tuple(json.loads(text or "[]"))


def scores(text: str | None) -> tuple[LabelScore, ...]:
    return tuple(LabelScore(**part) for part in json.loads(text or "[]"))


def _logprobs(parts: Iterable[Mapping[str, Any]]) -> tuple[TokenLogprob, ...]:
    return tuple(
        TokenLogprob(
            part["token_id"], part["token"], part["logprob"], tuple(LikelyToken(**likely) for likely in part["top"])
        )
        for part in parts
    )


def _fields(part: Any) -> dict[str, object]:
    # dataclasses.asdict copies every number and text, which a million tokens would feel.
    return {name: getattr(part, name) for name in part.__slots__}
