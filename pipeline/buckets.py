"""Stage 3: rows of like length are packed into batches under a row and a token budget. Pure Python, no tensors."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Protocol

from pipeline.rows import Asked, samples_of, tasks_of
from pipeline.settings import Settings

#: Fewer answers than this leave a device half idle, however long each takes.
_LEAST_ROWS = 8
#: A batch travels as one message, which so many tokens make 256 KiB at most.
_MOST_TOKENS = 1 << 16


@dataclass(frozen=True, slots=True)
class PlannedBatch:
    """Which rows are answered together; `n_tokens` counts their own prompt tokens, once where prompts are the same."""

    row_ids: tuple[int, ...]
    n_tokens: int
    prompt_rows: tuple[int, ...] = ()  #: rows of each prompt, in the order of `row_ids`; empty where each has one


@dataclass(frozen=True, slots=True)
class Budget:
    """What one batch may hold."""

    max_rows: int  #: answers: a row with several samples counts as so many
    max_tokens: int  #: own prompt tokens


class Rate(Protocol):
    """What was answered lately in how many seconds of a device's time."""

    @property
    def prompts(self) -> int: ...

    @property
    def own_tokens(self) -> int:
        """Prompt tokens, without what all rows of the job share."""

    @property
    def seconds(self) -> float: ...


def budget(settings: Settings, rate: Rate | None, samples: float = 1) -> Budget:
    """As much as takes `batch_seconds` at the measured rate; what the settings say where none was measured.

    `samples` are the answers to each row.
    """
    if rate is None or rate.prompts <= 0 or rate.seconds <= 0:
        return Budget(settings.batch_rows, settings.batch_tokens)
    share = settings.batch_seconds / rate.seconds
    answers = int(int(min(rate.prompts * share, settings.shard_rows)) * samples)
    # Nobody counted the tokens of rows that were retried.
    tokens = int(min(rate.own_tokens * share, _MOST_TOKENS)) if rate.own_tokens else settings.batch_tokens
    return Budget(max(answers, min(_LEAST_ROWS, settings.shard_rows)), max(tokens, 1))


def samples_each(asked: Asked) -> float:
    """Answers to a row, on average over its questions."""
    samples = [samples_of(task) for task in tasks_of(asked)]
    return sum(samples) / len(samples)


def batch_rows(asked: Asked, answers: int) -> int:
    """Rows of a batch of so many answers: where each row has several samples, fewer rows make it."""
    return max(1, int(answers / samples_each(asked)))


def plan(
    lengths: Sequence[tuple[int, int]],
    *,
    max_rows: int,
    max_tokens: int,
    together: Sequence[tuple[int, int]] = (),
    questions: int = 1,
) -> list[PlannedBatch]:
    """Pack (row_id, own prompt tokens) pairs; every row lands in exactly one batch, whatever the order given.

    The rows of `together` share more than the others do: they come first, in that order, each with the tokens that it
    adds behind the row before it, so that what they share counts once in a batch, and in every batch that needs it.
    Where a row is asked several `questions` (rows.Questions), neighbours that share it come into one batch if that
    holds them. Of the others the longest come first: what does not fit in memory shows at once, and no long batch keeps
    the last worker busy alone. A row over the token budget goes alone.
    """
    if max_rows < 1 or max_tokens < 1:
        raise ValueError("max_rows and max_tokens must be 1 or more")
    tokens = dict(lengths)
    neighbours = [(row_id, tokens.pop(row_id), added) for row_id, added in together]
    longest_first = [(row_id, n, n) for row_id, n in sorted(tokens.items(), key=lambda pair: (-pair[1], pair[0]))]
    return [batch for rows in (neighbours, longest_first) for batch in _pack(rows, max_rows, max_tokens, questions)]


def _pack(
    rows: Sequence[tuple[int, int, int]], max_rows: int, max_tokens: int, questions: int
) -> Iterator[PlannedBatch]:
    """Each row with its tokens at the start of a batch, and those that it adds to one."""
    packed: list[int] = []
    total = 0
    for _, of_one_row in groupby(rows, key=lambda row: row[0] // questions):
        asked = list(of_one_row)
        if packed and (len(packed) + len(asked) > max_rows or total + sum(added for *_, added in asked) > max_tokens):
            yield PlannedBatch(tuple(packed), total)
            packed, total = [], 0
        for row_id, alone, added in asked:
            if packed and (len(packed) == max_rows or total + added > max_tokens):
                yield PlannedBatch(tuple(packed), total)
                packed, total = [], 0
            total += added if packed else alone
            packed.append(row_id)
    if packed:
        yield PlannedBatch(tuple(packed), total)
