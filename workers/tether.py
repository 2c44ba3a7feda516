"""A line between two processes: where it is tied, a process does not outlive the one that started it."""

import ctypes
import os
import signal
import sys
from collections.abc import Callable

_PR_SET_PDEATHSIG = 1


def tether() -> Callable[[], None] | None:
    """For `preexec_fn`: kills the new process when the thread that starts it ends, however that comes. Linux only."""
    if sys.platform != "linux":
        return None
    libc, parent = ctypes.CDLL(None), os.getpid()

    def tie() -> None:
        libc.prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL))
        if os.getppid() != parent:
            os._exit(1)

    return tie
