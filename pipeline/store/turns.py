"""Stage 4: whose work is handed out next. Pure."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heapreplace
from typing import TypeVar

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Waiting:
    """A job that waits for its turn."""

    job_id: str
    priority: int
    submitted_at: float
    in_flight: int  #: what of it is enqueued or leased already


def take_turns(line: Sequence[Waiting], work_of: Callable[[str], Iterator[_T]], most: int) -> list[_T]:
    """So much work at most, in the order in which it is to be handed out.

    Jobs of the highest priority first; among equals, each time the one with the least in flight, so that they share
    the fleet evenly; then the one that was submitted first. `work_of` a job is asked for no more than is taken.
    """
    heap = [(-job.priority, job.in_flight, job.submitted_at, job.job_id) for job in line]
    heapify(heap)
    work = {job.job_id: work_of(job.job_id) for job in line}
    taken: list[_T] = []
    while heap and len(taken) < most:
        priority, in_flight, submitted_at, job_id = heap[0]
        for item in work[job_id]:
            taken.append(item)
            heapreplace(heap, (priority, in_flight + 1, submitted_at, job_id))
            break
        else:
            heappop(heap)
    return taken
