"""A row that fails alone fails alone: a batch that the engine cannot answer is halved down to the row at fault."""

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Protocol

from pipeline.errors import DeviceLost
from pipeline.inference.capacity import is_device_lost
from pipeline.inference.completions import Finished, broken
from pipeline.rows import Asked, Batch, BatchTiming


class Runs(Protocol):
    """What the engine does."""

    def run(self, batch: Batch, task: Asked) -> Finished: ...


def run_bisecting(engine: Runs, batch: Batch, task: Asked) -> Finished:
    """A completion for every prompt whatever happens; rows that break the engine by themselves are error rows.

    Raises DeviceLost where no smaller batch could succeed either.
    """
    try:
        return engine.run(batch, task)
    except Exception as error:
        if is_device_lost(error):
            raise DeviceLost(f"The device failed, and this process cannot use it any more: {error}") from error
        if len(batch.prompts) == 1:
            (prompt,) = batch.prompts
            # At once: the error holds on to all that the engine had in memory.
            completion = broken(prompt, len(batch.prefix) + len(prompt.own_ids), error)
            return Finished((lambda: completion,), BatchTiming())
    middle = len(batch.prompts) // 2
    halves = [replace(batch, prompts=part) for part in (batch.prompts[:middle], batch.prompts[middle:])]
    return _joined([run_bisecting(engine, half, task) for half in halves])


def _joined(parts: Sequence[Finished]) -> Finished:
    sums = {field.name: sum(getattr(part.timing, field.name) for part in parts) for field in fields(BatchTiming)}
    return Finished(tuple(row for part in parts for row in part.rows), BatchTiming(**sums))
