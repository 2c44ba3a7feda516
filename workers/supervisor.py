"""Worker processes kept alive: started together, started anew where they die, and stopped in order."""

import logging
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from workers.process import StopRequest
from workers.tether import tether

_LOG = logging.getLogger(__name__)
#: Seconds between two looks at the children.
_LOOK_S = 0.05
#: The pause before a child is started anew doubles with each death, and is short again once one has lived so long.
_SHORTEST_S, _LONGEST_S, _PROVEN_S = 1.0, 30.0, 60.0
_HINTS = {signal.SIGKILL: ", as happens when memory runs out"}


@dataclass(frozen=True, slots=True)
class Child:
    """What to start. It writes to where its supervisor writes to, and should say its name there."""

    name: str
    argv: Sequence[str]
    env: Mapping[str, str]


class Supervisor:
    """`on_death` hears the name, the process id and the return code of each child that ends unasked, and says whether
    it is to be started anew; False gives it up. `on_look` is called at each look at them, `on_stop` from the signal's
    handler. A supervisor that is killed takes its children along (Linux)."""

    def __init__(
        self,
        children: Sequence[Child],
        on_death: Callable[[str, int, int], bool] = lambda name, pid, returncode: True,
        *,
        on_look: Callable[[], None] = lambda: None,
        on_stop: Callable[[], None] = lambda: None,
        grace_s: float = 60.0,
        last_grace_s: float = 0.0,
        first_pause_s: float = 0.0,
        longest_pause_s: float = _LONGEST_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._on_death, self._on_look, self._on_stop = on_death, on_look, on_stop
        self._grace_s, self._last_grace_s, self._clock = grace_s, last_grace_s, clock
        self._posts = [_Post(child, first_pause_s, longest_pause_s, clock) for child in children]

    def run(self) -> int:
        """The exit status: 0 once it was asked to stop by SIGTERM or Ctrl-C, 1 where all children are given up.

        Asked to stop, it sends each SIGTERM, in the order given, and kills what still lives after `grace_s` seconds. A
        second Ctrl-C ends in KeyboardInterrupt; where the children are to let go of what they hold, they are sent
        SIGINT as well then, and killed after `last_grace_s`.
        """
        stop = StopRequest(self._on_stop)
        with stop.listening():
            try:
                while not stop.asked and any(not post.given_up for post in self._posts):
                    for post in self._posts:
                        post.tend(self._on_death)
                    self._on_look()
                    time.sleep(_LOOK_S)
                self._stop()
                self._wait(self._grace_s)
            except KeyboardInterrupt:
                if self._last_grace_s:
                    self._hurry()
                raise
            finally:
                for post in self._posts:
                    post.kill()
        return 0 if stop.asked else 1

    def _stop(self) -> None:
        for post in self._posts:
            post.send(signal.SIGTERM)

    def _hurry(self) -> None:
        """Those that have not heard yet that they are to stop hear of it first: a second asking is what hurries."""
        self._stop()
        time.sleep(_LOOK_S)
        for post in self._posts:
            post.send(signal.SIGINT)
        self._wait(self._last_grace_s)

    def _wait(self, grace_s: float) -> None:
        deadline = self._clock() + grace_s
        while any(post.lives() for post in self._posts) and self._clock() < deadline:
            time.sleep(_LOOK_S)


class _Post:
    """The place of one child, whichever process holds it."""

    def __init__(self, child: Child, first_pause_s: float, longest_pause_s: float, clock: Callable[[], float]) -> None:
        self.child, self.given_up = child, False
        self._longest_pause_s = longest_pause_s
        self._clock = clock
        self._process: subprocess.Popen[bytes] | None = None
        self._pause_s, self._since = _SHORTEST_S, clock()
        self._due = self._since + first_pause_s

    def tend(self, on_death: Callable[[str, int, int], bool]) -> None:
        """Starts it where it is due, and looks whether it has died."""
        if self._process is None:
            if not self.given_up and self._clock() >= self._due:
                self._start()
        elif self._process.poll() is not None:
            self._bury(self._process, on_death)

    def lives(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def send(self, number: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(number)

    def kill(self) -> None:
        if self._process is not None:
            _kill_group(self._process.pid)
            self._process.wait()
            self._process = None

    def _start(self) -> None:
        try:
            # A session of its own: Ctrl-C in a terminal reaches the supervisor alone, which knows the order.
            self._process = subprocess.Popen(
                self.child.argv, env=self.child.env, start_new_session=True, preexec_fn=tether()
            )
        except OSError as error:
            _LOG.warning("%s cannot be started: %s. It is tried again.", self.child.name, error)
            self._wait()
        self._since = self._clock()

    def _bury(self, process: subprocess.Popen[bytes], on_death: Callable[[str, int, int], bool]) -> None:
        _kill_group(process.pid)
        self._process = None
        if self._clock() - self._since >= _PROVEN_S:
            self._pause_s = _SHORTEST_S
        self.given_up = not on_death(self.child.name, process.pid, process.returncode)
        what = "it is given up" if self.given_up else f"it starts again in {self._pause_s:.0f} s"
        _LOG.warning("%s %s; %s.", self.child.name, describe_exit(process.returncode), what)
        self._wait()

    def _wait(self) -> None:
        self._due = self._clock() + self._pause_s
        self._pause_s = min(2 * self._pause_s, self._longest_pause_s)


def describe_exit(returncode: int) -> str:
    """What became of a process, to be read after its name, by subprocess's return code."""
    if returncode >= 0:
        return f"ended with status {returncode}"
    try:
        number = signal.Signals(-returncode)
    except ValueError:
        return f"was killed by signal {-returncode}"
    return f"was killed by signal {number.value} ({number.name}){_HINTS.get(number, '')}"


def _kill_group(leader: int) -> None:
    """All that the child has started besides."""
    with suppress(ProcessLookupError):
        os.killpg(leader, signal.SIGKILL)
