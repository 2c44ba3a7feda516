"""How many workers what waits in the fleet would need, from rates that were measured."""

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Load:
    """What of one job waits, in rows, and the rows a second of one worker; None where nothing was measured yet."""

    to_answer: int  #: also those that are not encoded yet
    to_encode: int
    answered_per_s: float | None
    encoded_per_s: float | None
    is_read: bool = False  #: its input, just now, so that more will wait


@dataclass(frozen=True, slots=True)
class Wanted:
    """Workers for the deadline; `reason` says why the number is not a measured one."""

    workers: int
    reason: str | None = None


def gpus_wanted(loads: Sequence[Load], deadline_s: float) -> Wanted:
    return _wanted([(load.to_answer, load.answered_per_s) for load in loads], deadline_s, "No batch was answered yet")


def tokenizers_wanted(loads: Sequence[Load], deadline_s: float) -> Wanted:
    """One at least also while an input is read, as shards come of it one by one, and a worker is slow to start."""
    found = _wanted([(load.to_encode, load.encoded_per_s) for load in loads], deadline_s, "No shard was encoded yet")
    if not found.workers and any(load.is_read for load in loads):
        return Wanted(1, "Nothing waits just now, but an input is still being read, and more comes of it.")
    return found


def _wanted(waiting: Sequence[tuple[int, float | None]], deadline_s: float, unmeasured: str) -> Wanted:
    """One at least where anything waits, and none where nothing does."""
    due = [(rows, rate) for rows, rate in waiting if rows]
    measured = [(rows, rate) for rows, rate in due if rate]
    if not due:
        return Wanted(0)
    if not measured:
        return Wanted(1, f"{unmeasured} with what waits, so its speed is unknown; one worker measures it.")
    seconds = sum(rows / rate for rows, rate in measured)
    # What was not measured is taken to be as slow as the rest, on average.
    seconds *= sum(rows for rows, _ in due) / sum(rows for rows, _ in measured)
    reason = None if len(measured) == len(due) else f"{unmeasured} of some jobs; they are taken to be like the others."
    return Wanted(max(1, math.ceil(seconds / deadline_s)), reason)
