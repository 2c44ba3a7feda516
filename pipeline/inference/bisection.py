"""A row that fails alone fails alone: a batch that the engine cannot answer is halved down to the row at fault."""

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Protocol

from pipeline.rows import Batch, BatchTiming, Completion, Status, Task


class Answers(Protocol):
    """What the engine does."""

    def answer(self, batch: Batch, task: Task) -> tuple[list[Completion], BatchTiming]: ...


def answer_bisecting(engine: Answers, batch: Batch, task: Task) -> tuple[list[Completion], BatchTiming]:
    """One completion for every prompt whatever happens; rows that break the engine by themselves are error rows."""
    try:
        return engine.answer(batch, task)
    except Exception as error:
        if len(batch.prompts) == 1:
            return [_broken(batch, error)], BatchTiming()
    middle = len(batch.prompts) // 2
    halves = [replace(batch, prompts=part) for part in (batch.prompts[:middle], batch.prompts[middle:])]
    return _joined([answer_bisecting(engine, half, task) for half in halves])


def _broken(batch: Batch, error: Exception) -> Completion:
    (prompt,) = batch.prompts
    reason = (str(error).splitlines() or [""])[0]
    return Completion(
        row_id=prompt.row_id,
        key=prompt.key,
        status=Status.ERROR,
        error_type="engine",
        error=f"The engine failed on this row, also alone: {type(error).__name__}: {reason}",
        prompt_tokens=len(batch.prefix) + len(prompt.own_ids),
    )


def _joined(parts: Sequence[tuple[list[Completion], BatchTiming]]) -> tuple[list[Completion], BatchTiming]:
    sums = {field.name: sum(getattr(timing, field.name) for _, timing in parts) for field in fields(BatchTiming)}
    return [completion for completions, _ in parts for completion in completions], BatchTiming(**sums)
