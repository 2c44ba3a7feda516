"""One stored prefix as a safetensors file that proves what it is, so that a damaged or foreign one is never used."""

import json
import zlib
from collections.abc import Iterable
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save_file
from torch import Tensor

from pipeline.inference.lanes import Lanes, LaneShape
from pipeline.inference.stem import Node

TokenIds = tuple[int, ...]

_FORMAT = "pipeline prefix 2"


class Unusable(Exception):  # noqa: N818 - what is said is what is wrong with the file
    """Why a file is not used, as a sentence."""


def write_prefix(file: Path, origin: str, path: TokenIds, node: Node, shape: LaneShape) -> None:
    """`origin` says whose numbers these are; `path` are all token ids up to the node's last. Raises OSError."""
    lanes = node.lanes.to(torch.device("cpu"))
    layers = [lanes.read(layer, 1, lanes.capacity) for layer in range(shape.layers)]
    blocks = dict(zip(_names(shape), (block for both in layers for block in both), strict=True))
    facts = _facts(origin, node.start) | {"checksum": _checksum(blocks.values())}
    try:
        save_file({"token_ids": torch.tensor(path), **blocks}, file, facts)
    except SafetensorError as error:  # it wraps the errors of the disk
        raise OSError(str(error)) from error


def read_prefix(file: Path, origin: str, path: TokenIds, start: int, shape: LaneShape) -> Node:
    """On the shape's device. Raises OSError, or Unusable for all but what was written for these very arguments."""
    # Read, not mapped: the fault of a disk is then an error, and no signal that ends the process.
    data = file.read_bytes()
    try:
        found = load(data)
    except SafetensorError as error:
        raise Unusable("It is damaged, or no such file at all.") from error
    facts = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")]).get("__metadata__") or {}
    checksum = facts.pop("checksum", None)
    if facts != _facts(origin, start):
        raise Unusable("It is of another model, or of another version of the software.")
    token_ids = found.pop("token_ids", None)
    if token_ids is None or token_ids.tolist() != list(path):
        raise Unusable("It is of other tokens.")
    blocks = [found[name] for name in _names(shape) if name in found]
    kinds = {_kind(block) for block in blocks}
    if len(blocks) != len(found) or len(blocks) != 2 * shape.layers or kinds != {_kind_of(shape, len(path) - start)}:
        raise Unusable("Its keys and values are of another shape or precision.")
    if checksum != _checksum(blocks):
        raise Unusable("Its keys and values are damaged.")
    lanes = Lanes(shape, 1, len(path) - start)
    for layer in range(shape.layers):
        lanes.write(layer, 0, blocks[2 * layer], blocks[2 * layer + 1])
    return Node(start, lanes)


def _names(shape: LaneShape) -> list[str]:
    """Of the blocks, each [1, kv_heads, tokens, dim]: written layer by layer, they need not be copied into one."""
    return [f"{block}.{layer}" for layer in range(shape.layers) for block in ("keys", "values")]


def _facts(origin: str, start: int) -> dict[str, str]:
    return {"format": _FORMAT, "origin": origin, "start": str(start)}


def _checksum(blocks: Iterable[Tensor]) -> str:
    """CRC-32 finds every flipped bit and any torn page, at the speed of memory."""
    total = 0
    for block in blocks:
        total = zlib.crc32(block.reshape(-1).view(torch.uint8).numpy().data, total)
    return f"{total:08x}"


def _kind(block: Tensor) -> tuple[object, ...]:
    return (block.dtype, *block.shape)


def _kind_of(shape: LaneShape, tokens: int) -> tuple[object, ...]:
    return (shape.dtype, 1, shape.kv_heads, tokens, shape.dim)
