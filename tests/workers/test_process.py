import os
import signal
import socket
import subprocess
import sys
import time

import pytest

from workers.process import Members, StopRequest


@pytest.fixture
def members(tmp_path):
    return Members(tmp_path)


def lock_of(tmp_path, owner):
    return tmp_path / "workers" / f"{owner.partition('/')[2]}.lock"


def test_a_member_is_alive_until_its_block_ends(members, tmp_path):
    with members.joined("job1") as owner:
        assert owner.startswith(f"{socket.gethostname()}/job1.")
        assert not members.is_dead(owner)
        assert members.jobs_at_work() == {"job1"}
    assert members.is_dead(owner)
    assert members.jobs_at_work() == set()
    assert not lock_of(tmp_path, owner).exists()


def test_a_member_that_fails_is_gone_too(members):
    with pytest.raises(RuntimeError), members.joined("job1") as owner:
        raise RuntimeError
    assert members.is_dead(owner)


def test_no_name_is_used_twice(members):
    with members.joined("job1") as one, members.joined("job1") as other, members.joined("job2"):
        assert one != other
        assert members.jobs_at_work() == {"job1", "job2"}


def test_of_another_host_nothing_is_known(members):
    assert not members.is_dead("elsewhere/job1.0123")


def test_a_killed_process_is_dead_though_its_lock_lies_there(members, tmp_path):
    program = (
        "import sys; from pathlib import Path; from workers.process import Members\n"
        f"with Members(Path({str(tmp_path)!r})).joined('job1') as owner:\n"
        "    print(owner, flush=True); sys.stdin.read()"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    owner = process.stdout.readline().strip()
    assert not members.is_dead(owner)
    assert members.jobs_at_work() == {"job1"}
    process.kill()
    process.communicate()
    assert members.is_dead(owner)
    assert members.jobs_at_work() == set()
    assert lock_of(tmp_path, owner).exists()


def test_a_lock_left_behind_is_cleared_after_a_minute(members, tmp_path):
    owner = f"{socket.gethostname()}/job1.0123"
    lock = lock_of(tmp_path, owner)
    lock.parent.mkdir()
    lock.touch()
    assert members.is_dead(owner)
    assert lock.exists()
    os.utime(lock, (time.time() - 61, time.time() - 61))
    assert members.is_dead(owner)
    assert not lock.exists()


@pytest.fixture
def stop():
    told = []
    request = StopRequest(lambda: told.append("stopping"))
    request.told = told
    return request


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_signal_asks_to_stop(stop, number):
    with stop.listening():
        assert not stop.asked
        signal.raise_signal(number)
        assert stop.asked
    assert stop.told == ["stopping"]


def test_a_second_ctrl_c_interrupts_at_once(stop):
    with stop.listening():
        signal.raise_signal(signal.SIGTERM)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert stop.told == ["stopping"]


def test_a_second_sigterm_only_asks_again(stop):
    with stop.listening():
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGTERM)
    assert stop.asked


def test_afterwards_signals_mean_what_they_meant_before(stop):
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    with stop.listening():
        assert signal.getsignal(signal.SIGTERM) != before[1]
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before
