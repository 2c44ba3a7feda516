"""What engines hold of their device at a moment, for whoever watches from another thread."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch

from pipeline.inference.engine import Engine


@dataclass(frozen=True, slots=True)
class Vitals:
    """Of one device."""

    evictions: int = 0  #: prefixes that left a memory for lack of room, since the process started
    prefix_bytes: dict[str, int] = field(default_factory=dict)  #: by memory: device, host
    lanes: dict[str, int] = field(default_factory=dict)  #: by state: held, in_use
    device_bytes: dict[str, int] = field(default_factory=dict)  #: by state: used, total; empty for a CPU


def vitals(engines: Sequence[Engine], device: str) -> Vitals:
    """Of the models that are loaded."""
    return Vitals(
        evictions=sum(engine.prefixes.evictions for engine in engines),
        prefix_bytes={
            "device": sum(engine.prefixes.nbytes for engine in engines),
            "host": sum(engine.prefixes.host_nbytes for engine in engines),
        },
        lanes={
            "held": sum(engine.lanes.count for engine in engines),
            "in_use": sum(engine.lanes.in_use for engine in engines),
        },
        device_bytes=_device_bytes(device) if engines else {},
    )


def _device_bytes(device: str) -> dict[str, int]:
    """Of all processes on it."""
    if not torch.cuda.is_available() or device == "cpu":
        return {}
    free, total = torch.cuda.mem_get_info(None if device == "auto" else device)
    return {"used": total - free, "total": total}
