"""Between stages 3 and 5: a batch's prompts as bytes, which lie in a token file and travel through the broker.

A digest of 16 bytes, then a msgpack map. What a prompt shares with the one before it is not sent again:

    prompt 0   document A ....... | question        kept 0, sent document A and question
    prompt 1   document A ....... | question        kept up to the cut, sent question
"""

import hashlib
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from itertools import chain
from typing import Any

import msgpack
import numpy as np

from pipeline.prefix_tree import common_cut
from pipeline.rows import Prompt, Twin

_FORMAT = 2
_DIGEST_BYTES = 16
_STRANGE = "another version of this program packed it"
#: Little-endian, whatever machine packs.
_SHORT, _LONG, _ROW_ID = "<u2", "<u4", "<u8"


@dataclass(frozen=True, slots=True)
class Payload:
    """What a batch's rows are answered from: each prompt continues `prefix`."""

    prefix: tuple[int, ...]
    prompts: tuple[Prompt, ...]


def pack(prefix: Sequence[int], prompts: Sequence[Prompt]) -> bytes:
    """Small where neighbours among the prompts share cuts, as they do in the order in which they were planned."""
    kept = [common_cut(before, prompt) for before, prompt in zip([None, *prompts], prompts, strict=False)]
    sent = [prompt.own_ids[shared:] + prompt.target for prompt, shared in zip(prompts, kept, strict=True)]
    targets = [len(prompt.target) for prompt in prompts]
    has_twins = any(prompt.twins for prompt in prompts)
    token_ids = np.array([*prefix, *chain.from_iterable(sent)], _LONG)
    width = _SHORT if token_ids.max(initial=0) < 1 << 16 else _LONG
    body = msgpack.packb(
        {
            "format": _FORMAT,
            "width": width,
            "prefix": len(prefix),
            "token_ids": token_ids.astype(width).tobytes(),
            "kept": _bytes(kept, _LONG),
            "sent": _bytes([len(ids) for ids in sent], _LONG),
            "row_ids": _bytes([prompt.row_id for prompt in prompts], _ROW_ID),
            "keys": [prompt.key for prompt in prompts],
            "cuts": [prompt.cuts for prompt in prompts],
            "cut_tokens": _bytes([prompt.cut_tokens for prompt in prompts], _LONG),
        }
        | ({"targets": _bytes(targets, _LONG)} if any(targets) else {})
        | ({"twins": [[astuple(twin) for twin in prompt.twins] for prompt in prompts]} if has_twins else {})
    )
    return _digest(body) + bytes(body)


def unpack(message: bytes) -> Payload:
    """Raises ValueError where the message is damaged, or where another version of this program packed it."""
    digest, body = message[:_DIGEST_BYTES], message[_DIGEST_BYTES:]
    if digest != _digest(body):
        raise ValueError("its digest is not that of its content")
    fields = msgpack.unpackb(body)
    if not isinstance(fields, dict) or fields.get("format") != _FORMAT:
        raise ValueError(_STRANGE)
    try:
        return _payload(**{name: value for name, value in fields.items() if name != "format"})
    except TypeError as error:  # a field that is not known here, or one that is missing
        raise ValueError(_STRANGE) from error


def _payload(
    width: str,
    prefix: int,
    token_ids: bytes,
    kept: bytes,
    sent: bytes,
    row_ids: bytes,
    keys: list[str],
    cuts: list[list[int]],
    cut_tokens: bytes,
    targets: bytes = b"",
    twins: Sequence[list[list[Any]]] = (),
) -> Payload:
    ids, at = tuple(_numbers(token_ids, width)), prefix
    prompts: list[Prompt] = []
    own_ids: tuple[int, ...] = ()
    scored = _numbers(targets, _LONG) or [0] * len(keys)
    counts = zip(*(_numbers(part, _LONG) for part in (kept, sent, cut_tokens)), scored, strict=True)
    rows = zip(_numbers(row_ids, _ROW_ID), keys, cuts, counts, twins or [[]] * len(keys), strict=True)
    for row_id, key, ends, (shared, count, left_out, behind), alike in rows:
        at += count
        own_ids = own_ids[:shared] + ids[at - count : at - behind]
        others = tuple(Twin(*twin) for twin in alike)
        prompts.append(Prompt(row_id, key, own_ids, tuple(ends), left_out, ids[at - behind : at], others))
    return Payload(ids[:prefix], tuple(prompts))


def _digest(body: bytes) -> bytes:
    return hashlib.blake2b(body, digest_size=_DIGEST_BYTES).digest()


def _bytes(numbers: Sequence[int], width: str) -> bytes:
    return np.array(numbers, width).tobytes()


def _numbers(raw: bytes, width: str) -> list[int]:
    numbers: list[int] = np.frombuffer(raw, width).tolist()
    return numbers
