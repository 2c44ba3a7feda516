"""One stored prefix as a safetensors file that proves what it is, so that a damaged or foreign one is never used."""

import json
import zlib
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save_file
from torch import Tensor

from pipeline.inference.lanes import Lanes, LaneShape
from pipeline.inference.stem import Node

TokenIds = tuple[int, ...]

_FORMAT = "pipeline prefix 1"


class Unusable(Exception):  # noqa: N818 - what is said is what is wrong with the file
    """Why a file is not used, as a sentence."""


def write_prefix(file: Path, origin: str, path: TokenIds, node: Node, shape: LaneShape) -> None:
    """`origin` says whose numbers these are; `path` are all token ids up to the node's last. Raises OSError."""
    keys, values = _blocks(node, shape)
    facts = _facts(origin, node.start) | {"checksum": _checksum(keys, values)}
    try:
        save_file({"token_ids": torch.tensor(path), "keys": keys, "values": values}, file, facts)
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
    if found.keys() != {"token_ids", "keys", "values"} or found["token_ids"].tolist() != list(path):
        raise Unusable("It is of other tokens.")
    keys, values = found["keys"], found["values"]
    if any(_kind(block) != _kind_of(shape, len(path) - start) for block in (keys, values)):
        raise Unusable("Its keys and values are of another shape or precision.")
    if checksum != _checksum(keys, values):
        raise Unusable("Its keys and values are damaged.")
    return _node(start, keys, values, shape)


def _facts(origin: str, start: int) -> dict[str, str]:
    return {"format": _FORMAT, "origin": origin, "start": str(start)}


def _blocks(node: Node, shape: LaneShape) -> tuple[Tensor, Tensor]:
    """Keys and values, each [layers, kv_heads, tokens, dim] in host memory."""
    lanes = node.lanes.to(torch.device("cpu"))
    layers = [lanes.read(layer, 1, lanes.capacity) for layer in range(shape.layers)]
    return torch.cat([keys for keys, _ in layers]), torch.cat([values for _, values in layers])


def _node(start: int, keys: Tensor, values: Tensor, shape: LaneShape) -> Node:
    lanes = Lanes(shape, 1, keys.shape[2])
    for layer in range(shape.layers):
        lanes.write(layer, 0, keys[layer : layer + 1], values[layer : layer + 1])
    return Node(start, lanes)


def _checksum(*blocks: Tensor) -> str:
    """CRC-32 finds every flipped bit and any torn page, at the speed of memory."""
    total = 0
    for block in blocks:
        total = zlib.crc32(block.reshape(-1).view(torch.uint8).numpy().data, total)
    return f"{total:08x}"


def _kind(block: Tensor) -> tuple[object, ...]:
    return (block.dtype, *block.shape)


def _kind_of(shape: LaneShape, tokens: int) -> tuple[object, ...]:
    return (shape.dtype, shape.layers, shape.kv_heads, tokens, shape.dim)
