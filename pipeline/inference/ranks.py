"""The rows of a batch on their way through the lanes: those that wait, those that run, and those that just finished."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from pipeline.inference.lanes import Lanes
from pipeline.rows import TokenLogprob


@dataclass(slots=True, eq=False)
class Answer:
    """What one row has generated so far; `finish` is set when it stops: stop, length, numeric or stuck."""

    place: int  #: among the rows of the stem
    prompt: Sequence[int]
    limit: int  #: tokens it may generate
    token_ids: list[int] = field(default_factory=list)
    logprobs: list[TokenLogprob] = field(default_factory=list)
    finish: str | None = None
    overdue: int = 0  #: of `token_ids`, those before the newest one that the model has not read either

    @property
    def ids(self) -> list[int]:
        """What the model reads as it gets a lane; it may have had one before."""
        return [*self.prompt, *self.token_ids]

    @property
    def newest(self) -> int:
        """What the model reads next: where nothing is generated yet, the prompt's last token."""
        return (self.token_ids or self.prompt)[-1]

    @property
    def length(self) -> int:
        """Tokens in its lane before the newest one, which has no key yet."""
        return len(self.prompt) + len(self.token_ids) - 1

    @property
    def longest(self) -> int:
        """Tokens that may come to be in its lane."""
        return len(self.prompt) + self.limit

    def grow(self, limit: int) -> bool:
        """Goes on up to so many tokens in all; False where it ended for another reason than a smaller limit."""
        if self.finish != "length" or self.limit >= limit:
            return False
        self.finish, self.limit = None, limit
        return True


@dataclass(slots=True)
class Rank:
    """Rows of one class of length. Of those that run, row i has lane i; the others wait for a lane."""

    lanes: Lanes
    waiting: deque[Answer]
    running: list[Answer] = field(default_factory=list)

    def admit(self, room: int, seats: int) -> list[Answer]:
        """Rows that get a lane now, in their order: `seats` at most, and not more than `room` has for their tokens."""
        admitted: list[Answer] = []
        seats = min(seats, self.lanes.count - len(self.running))
        while self.waiting and len(admitted) < seats and len(self.waiting[0].ids) <= room:
            admitted.append(self.waiting.popleft())
            room -= len(admitted[-1].ids)
            self.running.append(admitted[-1])
        return admitted

    def dismiss(self, admitted: Sequence[Answer]) -> None:
        """Those admitted last go back to where they waited."""
        if admitted:
            del self.running[-len(admitted) :]
            self.waiting.extendleft(reversed(admitted))

    def close(self) -> bool:
        """Finished rows leave; the last rows take their lanes, so that lanes stay without gaps. Whether any left."""
        before = len(self.running)
        for lane in reversed(range(before)):
            if self.running[lane].finish is not None:
                self._leave(lane)
        return len(self.running) < before

    def _leave(self, lane: int) -> None:
        if self.running[lane].finish == "numeric":
            self.lanes.clear(lane)
        last = self.running.pop()
        if lane < len(self.running):
            self.lanes.move(len(self.running), lane, last.length)
            self.running[lane] = last
