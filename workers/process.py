"""One worker process: a name that no other ever has, a lock that dies with it, and two kinds of being asked to stop."""

import signal
import socket
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from filelock import FileLock, Timeout

_STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)
#: Locks that a killed process left behind are cleared away once they are so old.
_CLEAR_AFTER_S = 60.0


class Members:
    """The worker processes of one home directory on this host. The kernel gives a lock back however a process ends."""

    def __init__(self, home: Path) -> None:
        self._directory, self._host = home.absolute() / "workers", socket.gethostname()

    @contextmanager
    def joined(self, job_id: str) -> Iterator[str]:
        """This process is alive, as far as the others can see, until the block ends; its name as an owner."""
        owner = f"{self._host}/{job_id}.{uuid.uuid4().hex}"
        path = self._path(owner)
        path.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(path):
            try:
                yield owner
            finally:
                path.unlink(missing_ok=True)

    def is_dead(self, owner: str) -> bool:
        """Known for owners on this host only; of others the lease must tell."""
        if owner.partition("/")[0] != self._host:
            return False
        return not self._is_held(self._path(owner))

    def jobs_at_work(self) -> set[str]:
        """The ids of the jobs that a living process answers."""
        return {path.name.partition(".")[0] for path in self._directory.glob("*.lock") if self._is_held(path)}

    @staticmethod
    def _is_held(path: Path) -> bool:
        if not path.exists():
            return False
        try:
            with FileLock(path, timeout=0):
                # A new one may be about to be locked by the process that made it.
                if time.time() - path.stat().st_mtime > _CLEAR_AFTER_S:
                    path.unlink(missing_ok=True)
                return False
        except Timeout:
            return True

    def _path(self, owner: str) -> Path:
        return self._directory / f"{owner.partition('/')[2]}.lock"


class StopRequest:
    """Set by the first SIGINT or SIGTERM; a second SIGINT interrupts at once."""

    def __init__(self, announce: Callable[[], None]) -> None:
        self.asked = False
        self._announce = announce

    @contextmanager
    def listening(self) -> Iterator[None]:
        before = {number: signal.signal(number, self._handle) for number in _STOP_SIGNALS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.asked and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.asked = True
        self._announce()
