"""The fleet's other processes, killed, missing or doubled; and a model that goes."""

import os
import shutil
import signal
import time

from tests.fleet.marks import on_postgresql, on_sqlite


@on_sqlite
def test_a_process_of_a_tokenizer_is_killed_while_it_encodes(fleet, rows, name, calm):
    with fleet.held("encoding"):
        fleet.submit(rows, name)
        fleet.until(lambda: fleet.seen.encoding(name))
        os.kill(fleet.worker("tokenizer"), signal.SIGKILL)
    fleet.until_done(name)
    fleet.require_whole(name, calm)


@on_postgresql
def test_a_tokenizer_is_killed_and_leaves_no_process_behind(fleet, rows, name, calm):
    with fleet.held("encoding"):
        fleet.submit(rows, name)
        fleet.until(lambda: fleet.seen.encoding(name))
        family = fleet.family("tokenizer")
        os.kill(family[0], signal.SIGKILL)
        fleet.processes["tokenizer"].wait()
        fleet.until(lambda: not any(is_there(pid) for pid in family))
    fleet.restart("tokenizer")
    fleet.until_done(name)
    fleet.require_whole(name, calm)


@on_sqlite
def test_a_second_ctrl_c_ends_a_tokenizer_at_once_and_gives_its_shard_back(fleet, rows, name, calm):
    process, family = fleet.processes["tokenizer"], fleet.family("tokenizer")
    with fleet.held("encoding"):
        fleet.submit(rows, name)
        fleet.until(lambda: fleet.seen.encoding(name))
        process.send_signal(signal.SIGINT)
        time.sleep(0.3)
        assert process.poll() is None
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=30) == 130, fleet.told()
        assert fleet.seen.leases(name) == 0
    assert "tokenizer" not in {worker.role for worker in fleet.seen.workers()}
    fleet.until(lambda: not any(is_there(pid) for pid in family))
    fleet.restart("tokenizer")
    fleet.until_done(name)
    fleet.require_whole(name, calm)


@on_sqlite
def test_a_shard_that_kills_whoever_encodes_it_pauses_its_job_alone(fleet, rows, name, calm):
    with fleet.held("encoding"):
        fleet.submit(rows, name, "--limit", "4")
        fence = 0
        for _ in range(3):
            # Between two of them the shard may be free for a moment only.
            fleet.until(lambda before=fence: fleet.seen.encoding(name) > before)
            fence = fleet.seen.encoding(name)
            os.kill(fleet.worker("tokenizer"), signal.SIGKILL)
        fleet.until(lambda: fleet.seen.job(name).paused_at is not None)
    assert "the 4 rows of shard 0 died or fell silent, 3 in a row." in fleet.seen.job(name).error
    fleet.submit(rows, f"{name}, other")
    fleet.until_done(f"{name}, other")
    assert fleet.run("resume", name).exit_code == 0
    fleet.until_done(name)
    fleet.require_whole(name, {row: calm[row] for row in range(4)})


@on_sqlite
def test_a_dispatcher_is_killed_and_another_one_goes_on(fleet, job, calm):
    fleet.kill("dispatcher")
    fleet.until(lambda: not fleet.seen.begun(job))
    assert fleet.seen.job(job).state == "running"
    assert fleet.status(job)["fleet"]["held_up"].startswith("No dispatcher lives")
    fleet.restart("dispatcher")
    fleet.until_done(job)
    fleet.require_whole(job, calm)


@on_postgresql
def test_two_dispatchers_at_once_do_no_harm(fleet, rows, name, calm):
    fleet.start("dispatcher1", "dispatcher")
    fleet.until(lambda: sum(worker.role == "dispatcher" for worker in fleet.seen.workers()) == 2)
    fleet.submit(rows, name)
    fleet.until_done(name)
    fleet.require_whole(name, calm)
    assert {row.attempts for row in fleet.seen.batches(name)} == {1}


@on_sqlite
def test_a_model_that_is_gone_pauses_its_job_and_no_other(fleet, rows, name, calm, tmp_path):
    model, away = tmp_path / "model", tmp_path / "away"
    shutil.copytree(fleet.model, model)
    with fleet.held("encoding"):
        fleet.submit(rows, name, "--model", str(model), "--limit", "16")
        model.rename(away)
    fleet.until(lambda: fleet.seen.job(name).paused_at is not None)
    assert f"There is no model at {model}" in fleet.seen.job(name).error
    fleet.submit(rows, f"{name}, other")
    fleet.until_done(f"{name}, other")
    away.rename(model)
    assert fleet.run("resume", name).exit_code == 0
    fleet.until_done(name)
    fleet.require_whole(name, {row: calm[row] for row in range(16)})


def is_there(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
