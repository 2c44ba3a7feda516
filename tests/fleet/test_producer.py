"""Whoever cuts the input dies before its end: the fleet answers what is cut, and `resume` cuts the rest."""

import shutil
import signal
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from pipeline.store.queries import list_shards
from pipeline.store.records import JobState
from tests.fleet.marks import on_postgresql, on_sqlite


@pytest.fixture
def table(rows, tmp_path):
    """A test's own."""
    return shutil.copy2(rows, tmp_path / "rows.parquet")


@on_sqlite
def test_rows_are_answered_before_the_input_is_read_to_its_end(fleet, table, name, calm):
    with fleet.held("cutting"):
        process = cutting(fleet, table, name)
        fleet.until_recorded(name, 30)
        assert fleet.seen.job(name).state is JobState.CUTTING
    assert process.wait(timeout=60) == 0
    fleet.until_done(name)
    fleet.require_whole(name, calm)


@on_postgresql
def test_a_submission_that_was_killed_is_gone_on_with_from_its_last_shard_if_its_input_is_the_same(
    fleet, table, name, calm
):
    with fleet.held("cutting"):
        process = cutting(fleet, table, name)
        process.kill()
        process.wait()
    assert fleet.status(name)["state"] == "interrupted"
    before, whole = files(fleet, name), Path(table).read_bytes()
    assert len(before) == 2
    pq.write_table(pq.read_table(table).slice(1), table)
    refused = fleet.run("resume", name)
    assert refused.exit_code == 4
    assert f"The input of {name} has changed since its first rows were read:" in refused.stderr
    Path(table).write_bytes(whole)
    done = fleet.run("resume", name)
    assert done.exit_code == 0, done.output
    fleet.until_done(name)
    fleet.require_whole(name, calm)
    assert files(fleet, name)[:2] == before


@on_sqlite
def test_a_submission_that_was_interrupted_says_how_to_go_on(fleet, table, name, calm):
    with fleet.held("cutting"):
        process = cutting(fleet, table, name)
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=60) == 130
    assert f"go on with: pipeline resume {name}" in fleet.log("submit")
    assert fleet.run("resume", name).exit_code == 0
    fleet.until_done(name)
    fleet.require_whole(name, calm)


def cutting(fleet, table, name):
    """A submission that waits before its third shard."""
    process = fleet.start("submit", *fleet.submission(table, name))
    fleet.until(lambda: name in [job.name for job in fleet.jobs()] and len(shards(fleet, name)) == 2)
    return process


def shards(fleet, name):
    return list_shards(fleet.engine, fleet.seen.job(name).id)


def files(fleet, name):
    """With the times of their last change."""
    return [
        (path, Path(path).stat().st_mtime_ns)
        for path in (shard.path.removeprefix("file://") for shard in shards(fleet, name))
    ]
