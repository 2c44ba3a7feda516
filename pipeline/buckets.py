"""Stage 3: rows of like length are packed into batches under a row and a token budget. Pure Python, no tensors."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pipeline.rows import Generate, Task


@dataclass(frozen=True, slots=True)
class PlannedBatch:
    """Which rows are answered together; `n_tokens` counts their own prompt tokens."""

    row_ids: tuple[int, ...]
    n_tokens: int


def batch_rows(task: Task, answers: int) -> int:
    """Rows of a batch of so many answers: where each row has several samples, fewer rows make it."""
    return max(1, answers // task.samples) if isinstance(task, Generate) else answers


def plan(
    lengths: Sequence[tuple[int, int]], *, max_rows: int, max_tokens: int, together: Sequence[tuple[int, int]] = ()
) -> list[PlannedBatch]:
    """Pack (row_id, own prompt tokens) pairs; every row lands in exactly one batch, whatever the order given.

    The rows of `together` share more than the others do: they come first, in that order, each with the tokens that it
    adds behind the row before it, so that what they share counts once in a batch, and in every batch that needs it.
    Of the others the longest come first: what does not fit in memory shows at once, and no long batch keeps the last
    worker busy alone. A row over the token budget goes alone.
    """
    if max_rows < 1 or max_tokens < 1:
        raise ValueError("max_rows and max_tokens must be 1 or more")
    tokens = dict(lengths)
    neighbours = [(row_id, tokens.pop(row_id), added) for row_id, added in together]
    longest_first = [(row_id, n, n) for row_id, n in sorted(tokens.items(), key=lambda pair: (-pair[1], pair[0]))]
    return [batch for rows in (neighbours, longest_first) for batch in _pack(rows, max_rows, max_tokens)]


def _pack(rows: Sequence[tuple[int, int, int]], max_rows: int, max_tokens: int) -> Iterator[PlannedBatch]:
    """Each row with its tokens at the start of a batch, and those that it adds to one."""
    packed: list[int] = []
    total = 0
    for row_id, alone, added in rows:
        if packed and (len(packed) == max_rows or total + added > max_tokens):
            yield PlannedBatch(tuple(packed), total)
            packed, total = [], 0
        total += added if packed else alone
        packed.append(row_id)
    if packed:
        yield PlannedBatch(tuple(packed), total)
