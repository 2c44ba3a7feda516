"""From the rows of a batch to the stem that they continue: nodes that the store has not, computed depth by depth."""

from collections.abc import Sequence

from pipeline.inference.forward import chunks, prefill
from pipeline.inference.lanes import Lanes
from pipeline.inference.model import LanguageModel
from pipeline.inference.prefix_store import Path, PrefixStore
from pipeline.inference.stem import Chain, Node, Stem


def plant(model: LanguageModel, store: PrefixStore, paths: Sequence[Sequence[Path]]) -> tuple[Stem, int]:
    """For each row the paths of its nodes, shortest first -> the stem, and how many tokens had to be computed."""
    nodes: dict[Path, Node] = {}
    computed = 0
    for depth in range(max(map(len, paths), default=0)):
        above = {row[depth]: row[:depth] for row in paths if depth < len(row)}
        found = {path: node for path in above if (node := store.get(path)) is not None}
        missing = sorted(above.keys() - found.keys(), key=len)
        nodes |= found
        chains = [tuple(nodes[path] for path in above[path]) for path in missing]
        for path, node in zip(missing, _compute(model, chains, missing), strict=True):
            nodes[path] = node
            store.put(path, node)
            computed += node.lanes.capacity
    return Stem([tuple(nodes[path] for path in row) for row in paths], model.device), computed


def _compute(model: LanguageModel, chains: Sequence[Chain], paths: Sequence[Path]) -> list[Node]:
    stem = Stem(chains, model.device)
    rows = [path[start:] for path, start in zip(paths, stem.lengths, strict=True)]
    nodes: list[Node] = []
    for part in chunks(rows) if rows else ():
        lanes = Lanes(model.shape, part.stop - part.start, max(map(len, rows[part])))
        prefill(model, stem, range(part.start, part.stop), rows[part], lanes)
        for lane, place in enumerate(range(part.start, part.stop)):
            nodes.append(Node(stem.lengths[place], lanes.take(lane, len(rows[place]))))
    return nodes
