"""What `jobs` and `status` tell of a job that a fleet answers, and `pause`."""

import json
import time

import pytest

from pipeline.store.queries import find_job
from pipeline.store.records import Role, WorkerState
from pipeline.store.registry import Registry


@pytest.fixture
def lately(desk):
    """Jobs of this desk were submitted ten minutes ago."""
    desk.clock.now = time.time() - 660
    return desk


def dispatcher(desk, **news):
    facts = {"queued": {"gpu": 2, "tokenizer": 1}, "memory": [2 << 20, 256 << 20]}
    return desk.enter(Role.DISPATCHER, WorkerState.BUSY, facts=json.dumps(facts), **news)


def table(text):
    """The workers' lines by role."""
    lines = text.splitlines()
    first = next(place for place, line in enumerate(lines) if line.startswith("ROLE\t"))
    names = lines[first].split("\t")
    return {
        line.split("\t")[0]: dict(zip(names, line.split("\t"), strict=True))
        for line in lines[first + 1 : lines.index("", first)]
    }


def test_a_running_job_has_its_workers_and_its_queue(lately, run):
    job = lately.running("night", batches=1, fleet=True)
    dispatcher(lately)
    lately.enter(Role.GPU, WorkerState.BUSY, device="cuda:0", job_id=job.id, batch_no=1, rows=1200)
    lately.enter(Role.TOKENIZER)
    text = run("status", "night").stdout
    assert text.startswith("night is running: 3 of 6 rows finished.\n")
    assert "queue     2 batches waiting, 0 enqueued, 0 with workers, 0 shards to encode; " in text
    assert "the broker holds 3 messages in 2 MiB of 256 MiB\n" in text
    assert list(table(text)) == ["dispatcher", "tokenizer", "gpu"]
    worker = table(text)["gpu"]
    assert worker.pop("SEEN").endswith(" s ago")
    assert worker == {
        "ROLE": "gpu",
        "HOST": "far",
        "DEVICE": "cuda:0",
        "STATE": "busy",
        "WORKS ON": "night, batch 1",
        "ROWS": "1,200",
        "NOTE": "",
    }
    assert text.endswith(
        "pipeline results night  shows the answers\n"
        "pipeline resume night --wait  follows it to its end, and shows the answers then\n"
        "pipeline pause night  holds it until it is resumed\n"
        "pipeline cancel night  stops it; what is answered stays\n"
    )


def test_what_holds_it_up_is_told_with_what_to_do(lately, run):
    lately.running("night", fleet=True)
    assert "No dispatcher lives on this database" in run("status").stdout
    dispatcher(lately)
    assert "Its batches wait to be answered, and no gpu worker lives." in run("status").stdout
    lately.enter(Role.GPU)
    assert "wait to be answered" not in run("status").stdout


def test_a_worker_that_failed_says_why(lately, run):
    lately.running("night", fleet=True)
    dispatcher(lately)
    Registry(lately.database).fail(lately.enter(Role.GPU), "The device is gone.")
    text = run("status").stdout
    assert (table(text)["gpu"]["STATE"], table(text)["gpu"]["NOTE"]) == ("failed", "The device is gone.")
    assert "All gpu workers have given up, the last one on far: The device is gone.\n" in text


def test_on_a_terminal_a_failed_worker_is_red(lately, terminal):
    lately.running("night", fleet=True)
    Registry(lately.database).fail(lately.enter(Role.GPU), "It broke.")
    assert "\x1b[31mfailed" in terminal("status", NO_COLOR="", COLUMNS="200")


def test_a_paused_job(lately, run):
    lately.running("night", batches=1, fleet=True)
    paused = run("pause", "night")
    assert paused.exit_code == 0
    assert paused.stdout == (
        "night is paused: 3 of 6 rows finished; what is begun is ended first.\n"
        "`pipeline resume night` goes on with it.\n"
    )
    text = run("status").stdout
    assert text.startswith("night is paused: 3 of 6 rows finished.\n")
    assert "It was paused by `pipeline pause`." in text
    assert text.endswith("pipeline resume night  goes on where it stopped\n")
    assert "night\tpaused\t3/6" in run("jobs").stdout
    assert run("pause", "night").stdout == paused.stdout


def test_a_job_of_one_process_cannot_be_paused(desk, run):
    desk.running("my night")
    refused = run("pause", "my night")
    assert refused.exit_code == 4
    assert "Ctrl-C stops it where it runs, and `pipeline resume 'my night'` goes on." in refused.stderr
    assert find_job(desk.database, "my night").paused_at is None


def test_a_job_that_is_done_cannot_be_paused(desk, run):
    desk.done("night", fleet=True)
    assert run("pause", "night").exit_code == 4


def test_only_a_living_producer_makes_it_being_cut(lately, run):
    job = lately.cutting("new", fleet=True)
    dispatcher(lately)
    assert run("status").stdout.startswith("new was interrupted while its input was being read;")
    assert "pipeline resume new  goes on" in run("status").stdout
    producer = lately.enter(Role.PRODUCER, WorkerState.BUSY, job_id=job.id)
    assert run("status").stdout.startswith("new is being cut: its input is still being read, 0 rows are finished.")
    Registry(lately.database).leave(producer)
    assert "new\tinterrupted\t0/?" in run("jobs").stdout


def test_a_producer_of_this_host_is_known_to_be_dead_at_once(lately, run):
    import socket
    import subprocess

    job = lately.cutting("new", fleet=True)
    process = subprocess.Popen(["true"])
    process.wait()
    lately.enter(Role.PRODUCER, WorkerState.BUSY, job_id=job.id, host=socket.gethostname(), pid=process.pid)
    assert "new\tinterrupted" in run("jobs").stdout


def test_json(lately, run):
    job = lately.running("night", batches=1, fleet=True)
    dispatcher(lately)
    lately.enter(
        Role.GPU, WorkerState.BUSY, device="cuda:0", job_id=job.id, batch_no=1, rows=12, tokens=3400, busy_s=2.5
    )
    told = json.loads(run("status", "--json").stdout)
    assert told["state"] == "running"
    fleet = told["fleet"]
    gpu = next(worker for worker in fleet.pop("workers") if worker["role"] == "gpu")
    assert (gpu["job"], gpu["batch"], gpu["rows"], gpu["tokens"], gpu["busy_seconds"]) == ("night", 1, 12, 3400, 2.5)
    assert fleet.pop("dispatcher_seen_seconds_ago") < 10
    assert fleet == {
        "held_up": None,
        "shards": {"pending": 0, "enqueued": 0, "leased": 0},
        "batches": {"pending": 2, "enqueued": 0, "leased": 0},
        "broker": {"queued": {"gpu": 2, "tokenizer": 1}, "memory": [2 << 20, 256 << 20]},
    }


def test_without_a_job_the_workers_are_shown(desk, run):
    assert run("status").exit_code == 3
    desk.enter(Role.GPU, WorkerState.LOADING, model="qwen", device="cuda:0")
    assert run("status", "night").exit_code == 3
    text = run("status").stdout
    assert text.startswith("There are no jobs yet.\n\nROLE\t")
    assert text.splitlines()[-1].startswith("gpu\tfar\tcuda:0\tloading\tqwen\t")
    told = json.loads(run("status", "--json").stdout)
    assert told["job"] is None
    assert [worker["state"] for worker in told["fleet"]["workers"]] == ["loading"]
