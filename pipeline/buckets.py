"""Stage 3: rows of like length are packed into batches under a row and a token budget. Pure Python, no tensors."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PlannedBatch:
    """Which rows are answered together; `n_tokens` counts their own prompt tokens."""

    row_ids: tuple[int, ...]
    n_tokens: int


def plan(
    lengths: Sequence[tuple[int, int]], *, max_rows: int, max_tokens: int, together: Sequence[int] = ()
) -> list[PlannedBatch]:
    """Pack (row_id, own prompt tokens) pairs; every row lands in exactly one batch, whatever the order given.

    The rows of `together` share more than the others do: they come first, in that order, and end where they end, so
    that what they share is computed for neighbours. Of the others the longest come first: what does not fit in memory
    shows at once, and no long batch keeps the last worker busy alone. A row over the token budget goes alone.
    """
    if max_rows < 1 or max_tokens < 1:
        raise ValueError("max_rows and max_tokens must be 1 or more")
    tokens = dict(lengths)
    neighbours = [(row_id, tokens.pop(row_id)) for row_id in together]
    longest_first = sorted(tokens.items(), key=lambda pair: (-pair[1], pair[0]))
    return [batch for pairs in (neighbours, longest_first) for batch in _pack(pairs, max_rows, max_tokens)]


def _pack(pairs: Sequence[tuple[int, int]], max_rows: int, max_tokens: int) -> Iterator[PlannedBatch]:
    rows: list[int] = []
    total = 0
    for row_id, n_tokens in pairs:
        if rows and (len(rows) == max_rows or total + n_tokens > max_tokens):
            yield PlannedBatch(tuple(rows), total)
            rows, total = [], 0
        rows.append(row_id)
        total += n_tokens
    if rows:
        yield PlannedBatch(tuple(rows), total)
