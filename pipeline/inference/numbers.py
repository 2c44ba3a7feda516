"""Inside stage 5: the random numbers by which rows draw their tokens, on the device before they are asked for."""

import hashlib
import random
from array import array
from collections.abc import Sequence

import torch
from torch import Tensor

#: Of a row, so many are brought to the device at once: they last for as many steps, if no row joins or leaves.
_AHEAD = 32


class Numbers:
    """Of all rows of a batch, which are known by their places. Each has its own, whoever it is asked beside."""

    def __init__(self, seed: int, rows: Sequence[tuple[int, int]]) -> None:
        """`rows` are (row_id, sample_no)."""
        self._sources = [row_numbers(seed, *row) for row in rows]
        self._ahead = [array("d") for _ in rows]  # drawn; used up are those of `_places` that `_used` counts
        self._places: list[int] = []
        self._used = _AHEAD
        self._block = torch.empty(0)

    def next(self, places: Sequence[int], device: torch.device) -> Tensor:
        """[rows] in [0, 1), one for each of the places, which are distinct; at best the same ones as before."""
        if self._used == _AHEAD or self._places != list(places):
            self._settle()
            self._places, self._used = list(places), 0
            block = bytearray().join(self._drawn(place, _AHEAD) for place in places)
            self._block = torch.frombuffer(block, dtype=torch.double).view(-1, _AHEAD).to(device)
        self._used += 1
        return self._block[:, self._used - 1]

    def skip(self, place: int, count: int) -> None:
        self._settle()
        del self._drawn(place, count)[:count]

    def _drawn(self, place: int, count: int) -> "array[float]":
        """At least so many."""
        ahead, source = self._ahead[place], self._sources[place]
        ahead.extend(source.random() for _ in range(count - len(ahead)))
        return ahead

    def _settle(self) -> None:
        for place in self._places:
            del self._ahead[place][: self._used]
        self._places, self._used = [], _AHEAD


def row_numbers(seed: int, row_id: int, sample_no: int = 0) -> random.Random:
    """The same numbers on every machine, whoever answers the row, beside whatever rows, in whichever try."""
    digest = hashlib.sha256(f"{seed}:{row_id}:{sample_no}".encode()).digest()
    return random.Random(int.from_bytes(digest, "big"))  # noqa: S311 - answers are no secrets
