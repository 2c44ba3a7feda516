"""One memory of the prefix store, a device's or the host's: least recently used out, bounded in bytes."""

from collections import OrderedDict
from collections.abc import Hashable
from typing import NamedTuple

import torch

from pipeline.inference.stem import Node


class Kept(NamedTuple):
    node: Node
    used_s: float  #: when it was last used


class PrefixMemory:
    """Nodes by their path, whatever tells them apart. `device` is where they are moved to; None leaves them."""

    def __init__(self, max_bytes: int, device: torch.device | None = None) -> None:
        self._max_bytes, self._device = max_bytes, device
        self._kept: OrderedDict[Hashable, Kept] = OrderedDict()  # in the order of their last use
        self.nbytes = 0

    def fits(self, node: Node) -> bool:
        return node.lanes.nbytes <= self._max_bytes

    def get(self, path: Hashable, now_s: float) -> Node | None:
        found = self.take(path)
        if found is None:
            return None
        self._add(path, Kept(found.node, now_s))
        return found.node

    def take(self, path: Hashable) -> Kept | None:
        """Out of this memory."""
        found = self._kept.pop(path, None)
        if found is not None:
            self.nbytes -= found.node.lanes.nbytes
        return found

    def put(self, path: Hashable, kept: Kept) -> list[tuple[Hashable, Kept]]:
        """What had to leave for it, the longest unused first. The newest stays, however large."""
        self.take(path)
        node = kept.node
        if self._device is not None:
            node = Node(node.start, node.lanes.to(self._device))
        self._add(path, Kept(node, kept.used_s))
        left = []
        while self.nbytes > self._max_bytes and len(self._kept) > 1:
            left.append(self._oldest())
        return left

    def expire(self, before_s: float) -> None:
        """Without what was last used before that moment."""
        while self._kept and next(iter(self._kept.values())).used_s < before_s:
            self._oldest()

    def _add(self, path: Hashable, kept: Kept) -> None:
        self._kept[path] = kept
        self.nbytes += kept.node.lanes.nbytes

    def _oldest(self) -> tuple[Hashable, Kept]:
        path, kept = self._kept.popitem(last=False)
        self.nbytes -= kept.node.lanes.nbytes
        return path, kept
