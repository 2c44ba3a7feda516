"""What the rows of a batch continue: for each row a chain of stored prefixes, and the levels that all chains make.

level 0   | instruction                                      |      one lane, read by all rows
level 1   | document A       | document B     | (no lane)     |      each read by the rows below it
rows      | 0 | 1 | 2        | 3 | 4          | 5 | 6         |
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from pipeline.inference.attention import Level
from pipeline.inference.lanes import Lanes
from pipeline.inference.masks import length_mask
from pipeline.inference.padding import Padding


@dataclass(frozen=True, slots=True, eq=False)
class Node:
    """A stored prefix: the keys and values of its own tokens, and the position of the first of them."""

    start: int
    lanes: Lanes

    @property
    def end(self) -> int:
        return self.start + self.lanes.capacity


Chain = tuple[Node, ...]

#: Up to so many tokens, nodes are alike: what padding costs then is less than a level more.
_SHORT = 63


class Stem:
    """Built once for the rows of a batch; `levels` then serves any forward over some of them."""

    def __init__(self, chains: Sequence[Chain], device: torch.device) -> None:
        self.lengths = [chain[-1].end if chain else 0 for chain in chains]
        self._device = device
        depths = range(max(map(len, chains), default=0))
        self._levels = [
            _Stored(nodes)
            for depth in depths
            for nodes in _alike([chain[depth] if depth < len(chain) else None for chain in chains])
        ]

    def levels(self, places: Sequence[int], tokens: Sequence[int]) -> list[Level]:
        """For a forward over the rows at `places`, of which each has so many tokens, one row after the other."""
        levels = (
            stored.level([stored.lane_of_row[place] for place in places], tokens, self._device)
            for stored in self._levels
        )
        return [level for level in levels if level is not None]


def _alike(nodes: Sequence[Node | None]) -> list[list[Node | None]]:
    """Nodes of like length together, for beside each other they are padded to the longest."""
    sizes = [None if node is None else max(node.lanes.capacity, _SHORT).bit_length() for node in nodes]
    return [
        [node if own == size else None for node, own in zip(nodes, sizes, strict=True)]
        for size in sorted({size for size in sizes if size is not None})
    ]


class _Stored:
    """Some nodes of one depth, a lane each, in the order of the rows below them."""

    def __init__(self, nodes: Sequence[Node | None]) -> None:
        distinct = list(dict.fromkeys(node for node in nodes if node is not None))
        lanes = {node: lane for lane, node in enumerate(distinct)}
        self.lane_of_row = [None if node is None else lanes[node] for node in nodes]
        self._starts = [node.start for node in distinct]
        self._lengths = [node.lanes.capacity for node in distinct]
        self._lanes = distinct[0].lanes if len(distinct) == 1 else Lanes.stack([node.lanes for node in distinct])

    def level(self, lanes: Sequence[int | None], tokens: Sequence[int], device: torch.device) -> Level | None:
        """`lanes` and `tokens` of each row. None where no row reads anything here.

        Only the lanes from the first to the last one read take part, so rows of one node should be neighbours.
        """
        read = [lane for lane in lanes if lane is not None]
        if not read:
            return None
        first, end = min(read), max(read) + 1
        lengths, starts = self._lengths[first:end], torch.tensor(self._starts[first:end], device=device)
        longest = max(lengths)
        if len(lengths) == 1 and None not in lanes:
            return Level(self._lanes, first, starts, longest, None, None, None)
        own = torch.tensor([-1 if lane is None else lane - first for lane in lanes])
        own = own.repeat_interleave(torch.tensor(tokens))
        reading = (own >= 0).nonzero().flatten()
        own = own[reading]
        order = reading[own.argsort(stable=True)]
        readers = Padding(own.bincount(minlength=len(lengths)).tolist(), device, order.to(device))
        mask = length_mask(torch.tensor(lengths, device=device), longest)
        return Level(self._lanes, first, starts, longest, readers, reading.to(device), mask)
