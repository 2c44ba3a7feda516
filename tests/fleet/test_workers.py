"""GPU workers that are killed, frozen, stopped or lied to: rows in are rows out, with the answers of a calm run."""

import os
import signal
import time

from pipeline.store.registry import Registry
from tests.fleet.marks import on_postgresql, on_sqlite
from tests.fleet.table import expected


def test_a_calm_run_has_the_answers_of_a_single_process(fleet, job, calm):
    fleet.until_done(job)
    fleet.require_whole(job, calm)
    assert fleet.seen.crashes(job) == 0


@on_sqlite
def test_both_workers_killed_in_the_middle_of_a_batch(fleet, job, calm):
    for name in ("gpu0", "gpu1"):
        os.kill(fleet.worker(name), signal.SIGKILL)
    fleet.until_done(job)
    fleet.require_whole(job, calm)


@on_postgresql
def test_a_worker_killed_with_its_guard_is_missed_when_its_lease_runs_out(fleet, job, calm):
    fleet.kill(fleet.guard_of(fleet.freeze_at_work(job)))
    fleet.until_done(job)
    fleet.require_whole(job, calm)
    assert fleet.seen.crashes(job) > 0


@on_sqlite
def test_a_worker_asked_to_stop_ends_its_batch_and_gives_the_next_one_back(fleet, job, calm):
    ((_, worker), *_) = until_begun(fleet, job)
    process = fleet.processes[fleet.guard_of(worker)]
    process.terminate()
    assert process.wait(timeout=60) == 0
    fleet.until_done(job)
    fleet.require_whole(job, calm)
    assert fleet.seen.crashes(job) == 0


@on_sqlite
def test_a_second_ctrl_c_ends_a_worker_at_once(fleet, job, calm):
    process = fleet.processes[fleet.guard_of(fleet.freeze_at_work(job))]
    process.send_signal(signal.SIGINT)
    time.sleep(0.3)
    assert process.poll() is None
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=30) == 130
    fleet.until_done(job)
    fleet.require_whole(job, calm)


def test_a_worker_that_stood_still_for_longer_than_its_lease_comes_too_late(fleet, job, calm, collector):
    worker = fleet.freeze_at_work(job)
    guard = fleet.guard_of(worker)
    before = fleet.log(guard).count("was answered too late")
    fleet.until_done(job)
    os.kill(worker, signal.SIGCONT)
    fleet.until(lambda: fleet.log(guard).count("was answered too late") > before)
    fleet.require_whole(job, calm)
    fleet.until(lambda: {"recorded", "too late"} in outcomes(collector, job))


@on_postgresql
def test_a_worker_whose_clock_is_wrong_goes_by_the_clock_of_the_database(fleet, rows, name, calm):
    fleet.kill("gpu0")
    os.kill(other := fleet.worker("gpu1"), signal.SIGSTOP)
    fleet.start("gpu0", *fleet.posts["gpu0"], FLEET_CLOCK_AHEAD_S="600")
    fleet.submit(rows, name)
    until_begun(fleet, name)
    leases = [row.lease_until - Registry(fleet.engine).now() for row in fleet.seen.batches(name) if row.lease_until]
    assert all(left < 60 for left in leases)
    fleet.freeze_at_work(name)
    fleet.kill("gpu0")
    os.kill(other, signal.SIGCONT)
    fleet.until_done(name)
    fleet.require_whole(name, calm)
    assert all(row.finished_at < Registry(fleet.engine).now() for row in fleet.seen.batches(name))


@on_sqlite
def test_a_batch_that_takes_longer_than_its_lease_stays_with_its_worker(fleet, rows, name, calm):
    fleet.submit(rows, name, "--key", "long", "--limit", "8")
    fleet.until_done(name)
    fleet.require_whole(name, expected(calm, "long", 8))
    assert {(row.attempts, row.crashes) for row in fleet.seen.batches(name)} == {(1, 0)}


@on_sqlite
def test_a_worker_killed_right_after_it_recorded_a_batch_leaves_nothing_of_it_to_be_done_again(fleet, rows, name, calm):
    fleet.submit(rows, name, "--key", "final", "--limit", "16")
    fleet.until_done(name)
    fleet.require_whole(name, expected(calm, "final", 16))
    (last,) = (row for row in fleet.seen.batches(name) if 1 in row.row_ids)
    assert (last.attempts, last.crashes) == (1, 0)
    fleet.until(lambda: any("killed by signal 9" in fleet.log(guard) for guard in ("gpu0", "gpu1")))


@on_sqlite
def test_a_worker_without_its_device_gives_up_and_says_why(fleet, rows, name, calm):
    with fleet.held("encoding"):
        fleet.submit(rows, name)
        process = fleet.start("gpu7", "worker", "gpu", "--device", "cuda:7")
        assert process.wait(timeout=120) == 69
        (told,) = (worker for worker in fleet.status(name)["fleet"]["workers"] if worker["device"] == "cuda:7")
    assert told["state"] == "failed"
    assert told["note"].startswith("--device is cuda:7, which cannot be used here.")
    fleet.until_done(name)
    fleet.require_whole(name, calm)


def until_begun(fleet, job) -> set[tuple[int, int]]:
    fleet.until(lambda: fleet.seen.begun(job))
    return fleet.seen.begun(job) or until_begun(fleet, job)


def outcomes(collector, job) -> list[set[str]]:
    """Of the attempts at each batch, as its trace tells them."""
    traces = collector.traces(job).values()
    return [{span.facts["outcome"] for span in spans if span.name == "record"} for _, *spans in traces]
