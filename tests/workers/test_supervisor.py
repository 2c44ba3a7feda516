import logging
import math
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from tests.redis_server import eventually
from workers.supervisor import Child, Supervisor, describe_exit

PROGRAM = Path(__file__).with_name("supervised.py")


class Supervised:
    def __init__(self, directory, *children, grace_s=60.0, last_grace_s=0.0):
        self.events = directory / "events"
        self.events.touch()
        self.log = directory / "log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, PROGRAM, self.events, str(grace_s), str(last_grace_s), *children],
                stderr=log,
                start_new_session=True,
            )

    def told(self, event):
        """What is told after the event, each time that it is told."""
        lines = self.events.read_text().splitlines()
        return [line.removeprefix(event).strip() for line in lines if line.startswith(event)]

    def pid(self, name):
        assert eventually(lambda: self.told(f"{name} began"))
        return int(self.told(f"{name} began")[-1])

    def stop(self, number=signal.SIGTERM):
        self.process.send_signal(number)
        return self.process.wait(90)


@pytest.fixture
def supervise(tmp_path):
    started = []

    def start(*children, **options):
        started.append(Supervised(tmp_path, *children, **options))
        return started[-1]

    yield start
    for supervised in started:
        supervised.process.kill()
        supervised.process.wait()


def is_gone(pid):
    """A process that nobody waits for is gone too."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def test_children_are_started_and_asked_to_stop_in_order(supervise):
    supervised = supervise("one:stay", "two:stay")
    pids = supervised.pid("one"), supervised.pid("two")
    assert supervised.stop() == 0
    assert all(is_gone(pid) for pid in pids)
    assert supervised.told("stopping") == [""]
    assert [len(supervised.told(f"{name} ended")) for name in ("one", "two")] == [1, 1]
    assert supervised.told("one died") == []


def test_one_ctrl_c_ends_all_without_reaching_the_children_itself(supervise):
    supervised = supervise("one:stay")
    supervised.pid("one")
    # As a terminal does it: to all processes of the group.
    os.killpg(supervised.process.pid, signal.SIGINT)
    assert supervised.process.wait(30) == 0
    assert supervised.told("one interrupted") == []
    assert len(supervised.told("one ended")) == 1


def test_a_second_ctrl_c_kills_at_once(supervise):
    supervised = supervise("one:stubborn", grace_s=600.0)
    pid = supervised.pid("one")
    supervised.process.send_signal(signal.SIGINT)
    assert eventually(lambda: supervised.told("one asked"))
    assert not is_gone(pid)
    assert supervised.stop(signal.SIGINT) == 130
    assert is_gone(pid)


def test_at_a_second_ctrl_c_children_have_a_last_moment_to_let_go_of_what_they_hold(supervise):
    supervised = supervise("one:hasty", grace_s=600.0, last_grace_s=600.0)
    pid = supervised.pid("one")
    supervised.process.send_signal(signal.SIGINT)
    assert eventually(lambda: supervised.told("one asked"))
    assert supervised.stop(signal.SIGINT) == 130
    assert len(supervised.told("one interrupted")) == len(supervised.told("one ended")) == 1
    assert is_gone(pid)


def test_one_that_lets_go_of_nothing_is_killed_after_the_last_moment(supervise):
    supervised = supervise("one:stubborn", grace_s=600.0, last_grace_s=0.2)
    pid = supervised.pid("one")
    supervised.process.send_signal(signal.SIGINT)
    assert eventually(lambda: supervised.told("one asked"))
    assert supervised.stop(signal.SIGINT) == 130
    assert supervised.told("one ended") == []
    assert is_gone(pid)


def test_a_child_that_will_not_stop_is_killed_after_the_grace(supervise):
    supervised = supervise("one:stubborn", grace_s=0.2)
    pid = supervised.pid("one")
    assert supervised.stop() == 0
    assert is_gone(pid)
    assert supervised.told("one ended") == []


def test_a_child_that_dies_is_told_of_and_started_anew(supervise):
    supervised = supervise("one:stay", "two:stay")
    first, other = supervised.pid("one"), supervised.pid("two")
    os.kill(first, signal.SIGKILL)
    assert eventually(lambda: len(supervised.told("one began")) == 2)
    assert supervised.told("one died") == [f"{first} -9"]
    assert supervised.pid("two") == other
    assert supervised.stop() == 0
    assert "one was killed by signal 9 (SIGKILL), as happens when memory runs out; it starts again in 1 s." in (
        supervised.log.read_text()
    )


def test_what_a_dead_child_had_started_goes_with_it(supervise):
    supervised = supervise("one:parent")
    pid = supervised.pid("one")
    (helper,) = supervised.told("one helper")
    os.kill(pid, signal.SIGKILL)
    assert eventually(lambda: is_gone(int(helper)))


def test_no_child_outlives_a_killed_supervisor(supervise):
    supervised = supervise("one:stay", "two:stubborn")
    pids = supervised.pid("one"), supervised.pid("two")
    assert supervised.stop(signal.SIGKILL) == -signal.SIGKILL
    assert eventually(lambda: all(is_gone(pid) for pid in pids))


def test_one_that_is_given_up_leaves_the_others_running(supervise):
    supervised = supervise("one:3", "two:stay")
    assert eventually(lambda: supervised.told("one died"))
    pid = supervised.pid("two")
    time.sleep(1.2)
    assert len(supervised.told("one began")) == 1
    assert not is_gone(pid)
    assert supervised.stop() == 0


def test_when_all_are_given_up_it_is_over(supervise):
    supervised = supervise("one:3", "two:3")
    assert supervised.process.wait(30) == 1
    assert "one ended with status 3; it is given up." in supervised.log.read_text()


def test_the_first_start_can_be_made_to_wait(caplog):
    began = []
    clock = Quick()
    before = clock()
    children = [Child("one", ["false"], os.environ)]
    kept = Supervisor(children, lambda *death: bool(began.append(clock())), first_pause_s=30.0, clock=clock)
    assert kept.run() == 1
    assert began[0] - before >= 30.0


class Quick:
    """A clock of which a minute passes in a second."""

    def __call__(self):
        return 60 * time.monotonic()


def pauses(caplog, argv, deaths):
    """The pauses, in the seconds of the quick clock, after so many deaths."""
    left = [None] * deaths

    def on_death(name, pid, returncode):
        left.pop()
        return bool(left)

    with caplog.at_level(logging.WARNING):
        assert Supervisor([Child("one", argv, os.environ)], on_death, clock=Quick()).run() == 1
    return [message.rpartition("; ")[2] for message in caplog.messages]


def test_pauses_grow_up_to_half_a_minute(caplog, monkeypatch):
    monkeypatch.setattr("workers.supervisor._PROVEN_S", math.inf)  # nor does a very busy machine prove any
    told = pauses(caplog, ["false"], 8)
    assert told[:-1] == [f"it starts again in {pause} s." for pause in (1, 2, 4, 8, 16, 30, 30)]


def test_whoever_lived_for_a_minute_is_started_soon_again(caplog):
    told = pauses(caplog, ["sh", "-c", "sleep 1.1; exit 1"], 3)
    assert told[:-1] == ["it starts again in 1 s."] * 2


def test_a_program_that_cannot_be_started_is_tried_again(tmp_path, caplog):
    program = tmp_path / "program"

    def arrive():
        eventually(lambda: len(caplog.messages) >= 2)
        program.write_text("#!/bin/sh\nexit 3\n")
        program.chmod(0o755)

    threading.Thread(target=arrive).start()
    with caplog.at_level(logging.WARNING):
        children = [Child("one", [str(program)], os.environ)]
        assert Supervisor(children, lambda name, pid, returncode: False, clock=Quick()).run() == 1
    assert "one cannot be started" in caplog.messages[0]


@pytest.mark.parametrize(
    ("returncode", "told"),
    [
        (0, "ended with status 0"),
        (1, "ended with status 1"),
        (-9, "was killed by signal 9 (SIGKILL), as happens when memory runs out"),
        (-11, "was killed by signal 11 (SIGSEGV)"),
        (-250, "was killed by signal 250"),
    ],
)
def test_an_exit_is_described(returncode, told):
    assert describe_exit(returncode) == told
