"""Stage 3: what rows share, found in their token ids alone: an instruction, then a document, then a question ...

A row's cuts say where the nodes above it end; rows in depth-first order lie together below every node:

    row 0   instruction ......... | document A .......... | own tokens      cuts (12, 30)
    row 1   instruction ......... | document A .......... | own tokens      cuts (12, 30)
    row 2   instruction ......... | own tokens                              cuts (12,)
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

from pipeline.rows import Prompt

Ids = tuple[int, ...]

#: Prompt tokens that a node must save, the rows below it taken together: a node costs a turn in each attention layer of
#: each forward. An estimate; `benchmarks/tree.py --least` compares others.
MIN_SAVED = 64
#: Tokens that a node must have of its own: each row below pays for every node above it, however short that is.
MIN_LENGTH = 16


def with_cuts(prompts: Sequence[Prompt]) -> list[Prompt]:
    """The same prompts with what they share marked, depth first."""
    rows = [prompt.own_ids for prompt in prompts]
    cuts = find_cuts(rows)
    return [replace(prompts[place], cuts=cuts[place]) for place in depth_first(rows)]


def additions(prompts: Sequence[Prompt]) -> list[tuple[int, int]]:
    """(row_id, tokens that are not shared with the row before) of those that have cuts; the prompts lie depth first."""
    sharing = [prompt for prompt in prompts if prompt.cuts]
    return [
        (prompt.row_id, len(prompt.own_ids) - _common_cut(before, prompt))
        for before, prompt in zip([None, *sharing], sharing, strict=False)
    ]


def _common_cut(before: Prompt | None, prompt: Prompt) -> int:
    if before is None:
        return 0
    return max((cut for cut in prompt.cuts if before.own_ids[:cut] == prompt.own_ids[:cut]), default=0)


def distinct_tokens(prompts: Sequence[Prompt]) -> int:
    """Own tokens of all prompts, those of a node that they share counted once."""
    edges = {prompt.own_ids[:cut]: cut - above for prompt in prompts for above, cut in pairwise((0, *prompt.cuts))}
    return sum(edges.values()) + sum(prompt.alone for prompt in prompts)


def depth_first(rows: Sequence[Ids]) -> list[int]:
    """Places of the rows in an order in which those that begin alike are neighbours."""
    return sorted(range(len(rows)), key=rows.__getitem__)


def find_cuts(rows: Sequence[Ids], min_saved: int = MIN_SAVED, min_length: int = MIN_LENGTH) -> list[tuple[int, ...]]:
    """For each row, in the order given, the ascending lengths at which a prefix that it shares ends.

    Two rows agree up to every cut that both have. At least one token is left behind a row's last cut.
    """
    order = depth_first(rows)
    shared = [0, *(_shared(rows[one], rows[other]) for one, other in pairwise(order))]
    cuts: list[tuple[int, ...]] = [()] * len(rows)
    for start, end, length in _nodes(shared, min_saved, min_length):
        for place in order[start:end]:
            cuts[place] += (length,)
    return cuts


def _nodes(shared: Sequence[int], min_saved: int, min_length: int) -> Iterator[tuple[int, int, int]]:
    """(start, end, length): rows start to end of the order share so many tokens. Parents come before children.

    shared[i] counts the tokens that row i has in common with the row before it.
    """
    waiting = [(0, len(shared), 0)]
    while waiting:
        start, end, above = waiting.pop()
        if end - start < 2:
            continue
        length = min(shared[start + 1 : end])
        if length - above >= min_length and (length - above) * (end - start - 1) >= min_saved:
            yield start, end, length
            above = length
        edges = [start, *(place for place in range(start + 1, end) if shared[place] == length), end]
        waiting += [(first, last, above) for first, last in pairwise(edges)]


def _shared(one: Ids, other: Ids) -> int:
    """Tokens in common from the start, by halving; each row keeps one of its own."""
    low, high = 0, min(len(one), len(other)) - 1
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low
