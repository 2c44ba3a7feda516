"""How much one forward takes on this device: halved where memory runs out, and remembered from batch to batch."""

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

import torch

from pipeline.inference.padding import length_class

#: Prompt tokens in one forward: enough to fill two cores or a small GPU, little enough to bound activations.
FORWARD_TOKENS = 2048
#: How torch says it on a CPU, where it has no exception of its own for it.
_ALLOCATION_FAILED = "DefaultCPUAllocator"

#: Keys and values of running rows at most, on a CPU.
_LANE_BYTES = 2 << 30
#: On a GPU, where nothing else wants the memory: of what the model left.
_LANE_SHARE = 0.5

T = TypeVar("T")


@dataclass(slots=True)
class Capacity:
    """Prompt tokens of a forward, of which a longer row goes alone, and rows that are decoded at once."""

    tokens: int = FORWARD_TOKENS
    rows: int = sys.maxsize
    #: Tokens of a row that goes alone; of more it is read in steps. Never less than `tokens`.
    longest: int = sys.maxsize
    #: Where rows must not be read in steps, since their last digits would tell.
    whole: bool = False

    def recall(self, known: "Capacity") -> None:
        """What it was when it was copied, for nothing came of less."""
        self.tokens, self.rows, self.longest = known.tokens, known.rows, known.longest

    def halve(self, tried: int) -> None:
        """So many were too many."""
        self.tokens = max(1, min(self.tokens, tried) // 2)

    def shorten(self, tried: int) -> bool:
        """So many tokens of one row alone were too many. False where no less would do."""
        if self.whole or tried == 1:
            return False
        self.longest = self.tokens = min(self.tokens, tried // 2)
        return True

    def parts(
        self,
        rows: Sequence[Sequence[int]],
        run: Callable[[slice], T],
        in_steps: Callable[[int], T] | None = None,
        *,
        alike: bool = False,
    ) -> Iterator[T]:
        """What `run` makes of consecutive rows that fit in a forward together, of one class of length where `alike`.

        A row that does not fit alone is for `in_steps`. Raises where that is None, or fails too.
        """
        start = 0
        while start < len(rows):
            part, alone = self._part(rows, start, alike), len(rows[start])
            try:
                result = in_steps(start) if in_steps and alone > self.longest else run(part)
            except Exception as error:
                if not is_out_of_memory(error):
                    raise
                if part.stop - start > 1:
                    self.halve(sum(map(len, rows[part])))
                elif in_steps is None or alone > self.longest or not self.shorten(alone):
                    raise
                continue
            yield result
            start = part.stop

    def steps(self, run: Callable[[slice], T], end: int, start: int = 0, most: int = sys.maxsize) -> Iterator[T]:
        """What `run` makes of a row's tokens from `start` to `end`, so many at once as fit, and not over `most`.

        Raises where a single token does not fit.
        """
        while start < end:
            step = slice(start, min(end, start + self.longest, start + most))
            try:
                result = run(step)
            except Exception as error:
                if not is_out_of_memory(error) or not self.shorten(step.stop - start):
                    raise
                continue
            yield result
            start = step.stop

    def _part(self, rows: Sequence[Sequence[int]], start: int, alike: bool) -> slice:
        end, tokens = start + 1, len(rows[start])
        while end < len(rows) and tokens + len(rows[end]) <= self.tokens:
            if alike and length_class(len(rows[end])) != length_class(len(rows[start])):
                break
            tokens += len(rows[end])
            end += 1
        return slice(start, end)


def is_out_of_memory(error: BaseException) -> bool:
    """Whether a smaller forward might succeed."""
    return isinstance(error, (torch.OutOfMemoryError, MemoryError)) or _ALLOCATION_FAILED in str(error)


def is_device_lost(error: BaseException) -> bool:
    """Whether nothing that this process asks of its device can succeed any more, such as after an illegal access."""
    return isinstance(error, torch.AcceleratorError) and not is_out_of_memory(error)


def usual_lane_bytes(device: torch.device) -> int:
    """To be asked once the model is loaded."""
    if device.type != "cuda":
        return _LANE_BYTES
    free, _ = torch.cuda.mem_get_info(device)
    return int(free * _LANE_SHARE)
