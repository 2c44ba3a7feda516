import json
import logging
import threading
import warnings
from datetime import datetime

import pytest

from pipeline.errors import JobError
from workers.hands import Hands
from workers.logs import about, in_context, log_to_stderr
from workers.tally import Tally

LOG = logging.getLogger("workers.test")


@pytest.fixture
def lines(monkeypatch, capsys):
    """What is written in a format."""

    def begun(log_format):
        monkeypatch.setattr(logging.root, "handlers", [])
        log_to_stderr("gpu", log_format)
        return lambda: capsys.readouterr().err.splitlines()

    yield begun
    logging.captureWarnings(False)


def test_text_is_a_line_that_ends_with_what_it_is_about(lines):
    read = lines("text")
    LOG.warning("The %s is full.", "disk")
    with about(worker="here/gpu.1"), about(job="j1", batch=7):
        LOG.error("It failed.")
    LOG.info("Nothing.")
    first, second = read()
    assert first.partition("gpu[")[2].partition("] ")[2] == "WARNING: The disk is full."
    assert second.endswith(" ERROR: It failed. (worker here/gpu.1, job j1, batch 7)")


def test_json_is_an_object_a_line(lines):
    read = lines("json")
    with about(worker="here/gpu.1", job="j1", shard=2, batch=7):
        LOG.warning("Zwei\nZeilen: %d", 3)
    LOG.warning("Later.")
    first, second = map(json.loads, read())
    assert datetime.fromisoformat(first.pop("time")).tzinfo is not None
    assert first.pop("process") > 0
    assert first == {
        "level": "warning",
        "role": "gpu",
        "worker": "here/gpu.1",
        "job": "j1",
        "shard": 2,
        "batch": 7,
        "message": "Zwei\nZeilen: 3",
    }
    assert {"job", "worker"}.isdisjoint(second)


def test_what_fails_again_and_again_is_a_line_a_minute(lines):
    read = lines("text")

    def say(text: str, at: float, name: str = "workers.test"):
        record = logging.makeLogRecord(
            {"msg": "%s", "args": (JobError(text),), "levelno": logging.WARNING, "name": name}
        )
        record.created = at
        LOG.handle(record)

    for second in range(600, 700, 2):
        say("The database is away.", second)
        say("The database is away.", second, "workers.other")
    with about(batch=7):
        say("The database is away.", 700)
    say("It is back.", 701)
    say("The database is away.", 702)
    say("The database is away.", 500)
    for _ in range(2):
        LOG.warning("A worker died.")
    told = [line.partition(": ")[2] for line in read()]
    away = "The database is away."
    assert told == [away] * 4 + [f"{away} (batch 7)", "It is back.", away, away] + 2 * ["A worker died."]


def test_a_traceback_and_the_warnings_of_libraries_are_lines_too(lines):
    read = lines("json")
    try:
        raise KeyError("x")
    except KeyError:
        LOG.exception("A fault.")
    warnings.warn("Old.", stacklevel=1)
    fault, warning = map(json.loads, read())
    assert fault["traceback"].endswith("KeyError: 'x'")
    assert "Old." in warning["message"]


def test_a_thread_knows_what_its_starter_is_about(lines):
    read = lines("json")
    with about(job="j1"):
        threads = [threading.Thread(target=work) for work in (in_context(lambda: LOG.warning("In.")), _out)]
    for thread in threads:
        thread.start()
        thread.join()
    assert [json.loads(line).get("job") for line in read()] == ["j1", None]


def _out():
    LOG.warning("Out.")


def test_a_workers_lines_tell_of_worker_job_shard_and_batch(desk, lines, monkeypatch):
    """Those of the thread that receives, and those of the one that computes."""
    read, paused = lines("json"), threading.Event()
    desk.encode_all()

    def refuse(job_id):
        raise JobError("It is not to be answered here.")

    def pause(job_id, why):
        LOG.warning("Paused.")
        paused.set()

    hands = Hands("here/gpu.1", desk.ledger, refuse, Tally(), 60.0)
    monkeypatch.setattr(desk.ledger, "pause", pause)
    with about(worker="here/gpu.1"), hands.working():
        hands.receive(desk.job.id, 4, b"damaged")
        assert paused.wait(60)
    damaged, told = map(json.loads, read())
    assert "is damaged" in damaged["message"]
    assert (damaged["worker"], damaged["job"], damaged["batch"]) == ("here/gpu.1", desk.job.id, 4)
    assert (told["worker"], told["job"], told["shard"], told["batch"]) == ("here/gpu.1", desk.job.id, 1, 4)
