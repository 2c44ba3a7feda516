"""The prefix store: keys and values of shared prefixes, paid for once, least recently used out, bounded in bytes."""

from collections import OrderedDict

from pipeline.inference.stem import Node

Path = tuple[int, ...]


class PrefixStore:
    """Nodes by the token ids from the very first to the node's last. The newest is always kept, however large."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._kept: OrderedDict[Path, Node] = OrderedDict()

    @property
    def nbytes(self) -> int:
        return sum(node.lanes.nbytes for node in self._kept.values())

    def get(self, path: Path) -> Node | None:
        node = self._kept.get(path)
        if node is not None:
            self._kept.move_to_end(path)
        return node

    def put(self, path: Path, node: Node) -> None:
        self._kept[path] = node
        while self.nbytes > self._max_bytes and len(self._kept) > 1:
            self._kept.popitem(last=False)
