"""Stage 3: what rows share, found in their token ids alone: an instruction, then a document, then a question ...

A row's cuts say where the nodes above it end; rows in depth-first order lie together below every node:

    row 0   instruction ......... | document A .......... | own tokens      cuts (12, 30)
    row 1   instruction ......... | document A .......... | own tokens      cuts (12, 30)
    row 2   instruction ......... | own tokens                              cuts (12,)
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

from pipeline.costs import Costs
from pipeline.rows import Asked, Embed, Generate, Prompt, Task, task_of, tasks_of

Ids = tuple[int, ...]


def with_cuts(prompts: Sequence[Prompt], costs: Costs, asked: Asked, batch_rows: int) -> list[Prompt]:
    """The same prompts with what it pays to share marked, depth first.

    Answers are taken to be as long as they may be, since each of their tokens reads every level; those to several
    questions, as long as they are on average, since a row is shared by all of its questions. A mean over all tokens of
    a prompt needs all of them computed, and shares nothing.
    """
    sharing = [task for task in tasks_of(asked) if _shares(task)]
    steps = sum(task.max_tokens - 1 for task in sharing if isinstance(task, Generate)) / max(1, len(sharing))
    places = [place for place, prompt in enumerate(prompts) if _shares(task_of(asked, prompt.row_id))]
    found = find_cuts([prompts[place].own_ids for place in places], costs, steps=steps, batch_rows=batch_rows)
    cuts = dict(zip(places, found, strict=True))
    order = depth_first([prompt.own_ids for prompt in prompts])
    return [replace(prompts[place], cuts=cuts.get(place, ())) for place in order]


def additions(prompts: Sequence[Prompt]) -> list[tuple[int, int]]:
    """(row_id, tokens that are not shared with the row before) of those that have cuts; the prompts lie depth first."""
    sharing = [prompt for prompt in prompts if prompt.cuts]
    return [
        (prompt.row_id, prompt.tokens - common_cut(before, prompt))
        for before, prompt in zip([None, *sharing], sharing, strict=False)
    ]


def common_cut(before: Prompt | None, prompt: Prompt) -> int:
    """The longest of the prompt's cuts up to which it is like the one before it, or 0."""
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


def find_cuts(rows: Sequence[Ids], costs: Costs, *, steps: float, batch_rows: int) -> list[tuple[int, ...]]:
    """For each row, in the order given, the ascending lengths at which a prefix that it shares ends.

    Two rows agree up to every cut that both have. At least one token is left behind a row's last cut. Rows decode
    `steps` tokens each, `batch_rows` at a time.
    """
    order = depth_first(rows)
    shared = [0, *(_shared(rows[one], rows[other]) for one, other in pairwise(order))]
    lengths = [len(rows[place]) for place in order]
    cuts: list[tuple[int, ...]] = [()] * len(rows)
    for span in _nodes(shared, lengths, costs, steps, batch_rows):
        for place in order[span.start : span.end]:
            cuts[place] += (span.length,)
    return cuts


def _shares(task: Task) -> bool:
    return not isinstance(task, Embed) or task.pooling == "last"


class _Span(NamedTuple):
    """Rows start to end of the order, two or more, share `length` tokens; `above` of them lie in a node already."""

    start: int
    end: int
    above: int
    length: int


def _nodes(
    shared: Sequence[int], lengths: Sequence[int], costs: Costs, steps: float, batch_rows: int
) -> Iterator[_Span]:
    """Greedily level by level, parents before children. What is no node leaves its tokens to those below it.

    shared[i] counts the tokens that row i has in common with the row before it.
    """

    def saved(span: _Span) -> float:
        start, end, above, length = span
        below = sum(lengths[start:end]) - sum(shared[start + 1 : end]) - length
        return costs.saved(tokens=length - above, rows=end - start, below=below, steps=steps)

    spans = _spans(shared, [0, len(shared)], 0)
    while spans:
        level: list[_Span] = []
        while spans:
            paying = [span for span in spans if saved(span) > 0]
            batches = math.ceil(sum(span.end - span.start for span in paying) / batch_rows)
            if not level and sum(map(saved, paying)) <= costs.level_s * (1 + steps) * batches:
                paying = []
            level += paying
            spans = [child for span in set(spans) - set(paying) for child in _children(shared, span, span.above)]
        yield from level
        spans = [child for span in level for child in _children(shared, span, span.length)]


def _children(shared: Sequence[int], span: _Span, above: int) -> list[_Span]:
    """What agrees further than the span."""
    inner = range(span.start + 1, span.end)
    return _spans(shared, [span.start, *(place for place in inner if shared[place] == span.length), span.end], above)


def _spans(shared: Sequence[int], edges: Sequence[int], above: int) -> list[_Span]:
    return [_Span(start, end, above, min(shared[start + 1 : end])) for start, end in pairwise(edges) if end - start > 1]


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
