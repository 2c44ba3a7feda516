"""Stage 5: GGUF files as transformers reads them, in a fifth of the time.

transformers reads the file's vocabulary anew for the configuration, the tokenizer and the weights, each word by slices
of numpy's slow memmap class, and asks for the names of all tensors anew for each part of the network.
"""

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import gguf
import numpy as np
from gguf import GGUFValueType

_STRING = struct.Struct("<Q")


class _Reader(gguf.GGUFReader):  # type: ignore[misc] # the package has no types
    """The same fields, as slices of a plain array; the words of a list as bytes."""

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value.view(np.ndarray) if name == "data" else value)

    def _get_field_parts(self, orig_offs: int, raw_type: int) -> Any:
        if raw_type != GGUFValueType.ARRAY or self.byte_order != "I":
            return super()._get_field_parts(orig_offs, raw_type)
        head = [self._get(orig_offs, np.uint32), self._get(orig_offs + 4, np.uint64)]
        kind, count = GGUFValueType(int(head[0][0])), int(head[1][0])
        if kind == GGUFValueType.STRING:
            parts, end = self._strings(orig_offs + 12, count)
        elif kind in self.gguf_scalar_to_np:
            values = self._get(orig_offs + 12, self.gguf_scalar_to_np[kind], count)
            parts, end = [values[n : n + 1] for n in range(count)], orig_offs + 12 + values.nbytes
        else:
            return super()._get_field_parts(orig_offs, raw_type)
        step = len(parts) // max(1, count)
        places = [len(head) + step * n + step - 1 for n in range(count)]
        return end - orig_offs, head + parts, places, [GGUFValueType.ARRAY, *([kind] if count else [])]

    def _strings(self, at: int, count: int) -> tuple[list[Any], int]:
        """A length and the bytes of each, and where they end."""
        data, parts = self.data, []
        for _ in range(count):
            (length,) = _STRING.unpack_from(data, at)
            parts += [data[at : at + 8].view(np.uint64), data[at + 8 : at + 8 + length].tobytes()]
            at += 8 + length
        return parts, at


@contextmanager
def quick_reading() -> Iterator[None]:
    """For one thread at a time: until it ends, all of this process reads so."""
    usual = {name: getattr(gguf, name) for name in ("GGUFReader", "get_tensor_name_map")}
    _set(GGUFReader=_Reader, get_tensor_name_map=cache(gguf.get_tensor_name_map))
    try:
        yield
    finally:
        _set(**usual)


def _set(**values: object) -> None:
    for name, value in values.items():
        setattr(gguf, name, value)
