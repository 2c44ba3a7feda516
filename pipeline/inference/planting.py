"""From the rows of a batch to the chains that they continue: nodes that the store has not, computed depth by depth."""

from collections.abc import Container, Sequence

from pipeline.inference.capacity import Capacity
from pipeline.inference.forward import prefill
from pipeline.inference.lanes import Lanes
from pipeline.inference.long_row import LongRow
from pipeline.inference.model import LanguageModel
from pipeline.inference.padding import length_class
from pipeline.inference.prefix_store import Path, PrefixStore
from pipeline.inference.stem import Chain, Node, Stem


def plant(
    model: LanguageModel,
    store: PrefixStore,
    paths: Sequence[Sequence[Path]],
    capacity: Capacity,
    passing: Container[Path] = (),
) -> tuple[list[Chain], int]:
    """For each row the paths of its nodes, shortest first -> the nodes, and how many tokens had to be computed.

    Nodes that are `passing` are of use to this batch alone, and are not stored.
    """
    nodes: dict[tuple[Path, ...], Node] = {}
    computed = 0
    for depth in range(max(map(len, paths), default=0)):
        wanted = dict.fromkeys(tuple(row[: depth + 1]) for row in paths if depth < len(row))
        stored = {trail: store.get(trail[-1], _start(trail), model.stretched) for trail in wanted}
        nodes |= {trail: node for trail, node in stored.items() if node is not None}
        missing = sorted(wanted.keys() - nodes.keys(), key=lambda trail: len(trail[-1]))
        chains = [tuple(nodes[trail[:end]] for end in range(1, depth + 1)) for trail in missing]
        rows = [trail[-1][_start(trail) :] for trail in missing]
        for trail, node in zip(missing, _compute(model, chains, rows, capacity), strict=True):
            nodes[trail] = node
            if trail[-1] not in passing:
                store.put(trail[-1], node, model.stretched)
            computed += node.lanes.capacity
    chains = [tuple(nodes[tuple(row[:end])] for end in range(1, len(row) + 1)) for row in paths]
    return chains, computed


def _start(trail: tuple[Path, ...]) -> int:
    """Where the last node's own tokens begin: the same ones may be divided otherwise in other batches."""
    return len(trail[-2]) if len(trail) > 1 else 0


def _compute(model: LanguageModel, chains: Sequence[Chain], rows: Sequence[Path], capacity: Capacity) -> list[Node]:
    stem = Stem(chains, model.device)

    def nodes(part: slice) -> list[Node]:
        places = range(len(rows))[part]
        longest = max(map(len, rows[part]))
        lanes = Lanes(model.shape, len(places), length_class(longest) if model.deterministic else longest)
        prefill(model, stem, places, rows[part], lanes)
        return [Node(stem.lengths[place], lanes.take(n, len(rows[place]))) for n, place in enumerate(places)]

    def in_steps(place: int) -> list[Node]:
        lanes = Lanes(model.shape, 1, len(rows[place]))
        row = LongRow(model, stem, place, rows[place], lanes)
        for _ in capacity.steps(row.read, len(row.ids)):
            pass
        return [Node(stem.lengths[place], lanes)]

    return [node for some in capacity.parts(rows, nodes, in_steps) for node in some]
