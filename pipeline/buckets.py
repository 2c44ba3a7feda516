"""Stage 3: rows of like length are packed into batches under a row and a token budget. Pure Python, no tensors."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PlannedBatch:
    """Which rows are answered together; `n_tokens` counts their own prompt tokens."""

    row_ids: tuple[int, ...]
    n_tokens: int


def plan(lengths: Sequence[tuple[int, int]], *, max_rows: int, max_tokens: int) -> list[PlannedBatch]:
    """Pack (row_id, own prompt tokens) pairs; every row lands in exactly one batch, whatever the order given.

    The longest come first: what does not fit in memory shows at once, and no long batch keeps the last
    worker busy alone. A row over the token budget gets a batch of its own.
    """
    if max_rows < 1 or max_tokens < 1:
        raise ValueError("max_rows and max_tokens must be 1 or more")
    longest_first = sorted(lengths, key=lambda pair: (-pair[1], pair[0]))
    return list(_pack(longest_first, max_rows, max_tokens))


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
