"""How much one forward takes on this device: halved where memory runs out, and remembered from batch to batch."""

import sys
from collections.abc import Callable, Iterator, Sequence
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


class Capacity:
    """Prompt tokens of a forward, of which a longer row goes alone, and rows that are decoded at once."""

    def __init__(self, tokens: int = FORWARD_TOKENS, rows: int = sys.maxsize) -> None:
        self.tokens, self.rows = tokens, rows

    def halve(self, tried: int) -> None:
        """So many were too many."""
        self.tokens = max(1, min(self.tokens, tried) // 2)

    def parts(self, rows: Sequence[Sequence[int]], run: Callable[[slice], T], *, alike: bool = False) -> Iterator[T]:
        """What `run` makes of consecutive rows that fit in a forward together, of one class of length where `alike`.

        Raises where one row alone does not fit.
        """
        start = 0
        while start < len(rows):
            part = self._part(rows, start, alike)
            try:
                result = run(part)
            except Exception as error:
                if part.stop - start == 1 or not is_out_of_memory(error):
                    raise
                self.halve(sum(map(len, rows[part])))
                continue
            yield result
            start = part.stop

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
