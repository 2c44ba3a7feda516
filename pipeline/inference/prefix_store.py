"""The prefix store: keys and values of shared prefixes, paid for once, in device memory, host memory and on disk."""

import math
import time
from collections.abc import Callable, Hashable
from dataclasses import replace
from importlib.metadata import version

import torch

from pipeline.inference.model import LanguageModel
from pipeline.inference.prefix_disk import PrefixDisk
from pipeline.inference.prefix_memory import Kept, PrefixMemory
from pipeline.inference.stem import Node
from pipeline.settings import Settings

Path = tuple[int, ...]

#: What may compute other numbers from the same weights.
_SOFTWARE = ("pipeline", "torch", "transformers")


class PrefixStore:
    """Nodes by the token ids from the very first to the node's last, as long as they are used.

    What device memory has no room for falls to the host's; both bring a node back to the device when it is asked for.
    On disk lies what is likely to be asked for by another process: the first node of all, with which all rows of a job
    begin, and what a second batch reads. A document that only one batch reads is not worth its file.
    """

    def __init__(
        self,
        max_bytes: int,
        *,
        host_bytes: int = 0,
        device: torch.device | None = None,
        disk: PrefixDisk | None = None,
        long_disk: PrefixDisk | None = None,
        ttl_s: float = math.inf,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`device` is the one to which nodes come back from the host; nodes of which nobody makes use live `ttl_s`.

        `long_disk` has those of rows that are long, where a model reads them otherwise.
        """
        self._memory = PrefixMemory(max_bytes, device)
        self._host = PrefixMemory(host_bytes, torch.device("cpu"))
        self._disks, self._ttl_s, self._clock = (disk, long_disk), ttl_s, clock
        self.evictions = 0  #: nodes that left a memory for lack of room

    @classmethod
    def open(cls, model: LanguageModel, settings: Settings) -> "PrefixStore":
        """Where a model computes on the CPU, the host's memory is the device's. One of unknown identity has no disk."""
        directory = settings.home.absolute() / "prefixes"
        disk, long_disk = (
            PrefixDisk(directory, _origin(reading), model.shape, settings.prefix_disk_bytes, settings.prefix_ttl_s)
            if model.identity
            else None
            for reading in (model, replace(model, stretched=True))
        )
        return cls(
            settings.prefix_bytes,
            host_bytes=0 if model.device.type == "cpu" else settings.prefix_host_bytes,
            device=model.device,
            disk=disk,
            long_disk=long_disk,
            ttl_s=settings.prefix_ttl_s,
        )

    @property
    def nbytes(self) -> int:
        """In device memory."""
        return self._memory.nbytes

    @property
    def host_nbytes(self) -> int:
        return self._host.nbytes

    def get(self, path: Path, start: int, stretched: bool = False) -> Node | None:
        """The node that goes on from `start`, where the one above it ends: the same tokens may be divided otherwise.

        One that is `stretched` was read for long rows, and is of use to no other.
        """
        node = self._remembered((path, stretched))
        if node is not None and node.start == start:
            self._write(path, node, stretched)
            return node
        disk = self._disks[stretched]
        if disk is None:
            return None
        node = disk.read(path, start)
        if node is not None:
            self._remember((path, stretched), Kept(node, self._clock()))
        return node

    def put(self, path: Path, node: Node, stretched: bool = False) -> None:
        is_first = not self._memory.nbytes
        self._remember((path, stretched), Kept(node, self._clock()))
        if is_first:
            self._write(path, node, stretched)

    def _remembered(self, path: Hashable) -> Node | None:
        now_s = self._clock()
        for memory in (self._memory, self._host):
            memory.expire(now_s - self._ttl_s)
        fallen = self._host.take(path)
        if fallen is not None:
            self._remember(path, fallen)
        return self._memory.get(path, now_s)

    def _remember(self, path: Hashable, kept: Kept) -> None:
        for left, old in self._memory.put(path, kept):
            self.evictions += 1
            if self._host.fits(old.node):
                self.evictions += len(self._host.put(left, old))

    def _write(self, path: Path, node: Node, stretched: bool) -> None:
        disk = self._disks[stretched]
        if disk is not None:
            disk.keep(path, node)


def _origin(model: LanguageModel) -> str:
    software = ", ".join(f"{name} {version(name)}" for name in _SOFTWARE)
    way = ("deterministic" if model.deterministic else "plain") + (" of long rows" if model.stretched else "")
    return f"{model.identity}, {model.kernel_name} on {_device(model.device)}, {way}, {software}"


def _device(device: torch.device) -> str:
    """Devices of one name differ by rounding at most. CPUs with other vector instructions sum up in another order."""
    return f"cpu with {torch.backends.cpu.get_cpu_capability()}" if device.type == "cpu" else device.type
