"""Where a job cannot be kept: the home, the database, the disk. What can be mended is told, and nothing is lost."""

import json
import sqlite3

import pytest

from pipeline.store.database import open_database


@pytest.fixture
def rows(table):
    return table(text=["a", "b", "c"])


@pytest.mark.parametrize("flags", [[], ["--dry-run"]])
def test_a_home_that_cannot_be_made(home, submit, rows, told, flags):
    home.path.write_text("a file in its place")
    assert told(submit(rows, *flags), 1) == (
        f"The directory {home.path} cannot be written to: File exists. "
        "Set PIPELINE_HOME to a directory that you may write to."
    )


def test_a_database_that_is_none(home, submit, rows, told):
    home.path.mkdir()
    (home.path / "pipeline.db").write_text("This is a letter to a friend. " * 50)
    assert told(submit(rows), 1).startswith(f"{home.path / 'pipeline.db'} is not a database. Move the file away")


def test_a_setting_that_is_none(home, submit, rows, told):
    home.variables["PIPELINE_SHARD_ROWS"] = "zero"
    assert told(submit(rows), 2) == "PIPELINE_SHARD_ROWS is 'zero'; it must be a whole number of 1 or more."


def test_a_device_that_is_not_there(home, submit, rows, told):
    home.variables["PIPELINE_DEVICE"] = "toaster"
    assert told(submit(rows), 1).startswith("PIPELINE_DEVICE is toaster, which cannot be used here.")


def test_a_locked_database_is_tried_again_later(home, submit, rows, told, monkeypatch):
    monkeypatch.setattr(open_database, "__defaults__", (0.1,))  # seconds to wait, instead of 30
    home.database().dispose()
    other = sqlite3.connect(home.path / "pipeline.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    message = told(submit(rows), 75)
    other.execute("ROLLBACK")
    other.close()
    assert message == (
        f"The database {home.path / 'pipeline.db'} is locked by another process. "
        "Nothing was changed; try again when that one is done."
    )
    assert submit(rows).exit_code == 0


def test_a_disk_that_is_full_for_shards_is_gone_on_with_later(home, submit, rows, told, full_disk):
    home.variables["PIPELINE_SHARD_ROWS"] = "1"
    with full_disk(behind=2):  # the first shard and its directory
        message = told(submit(rows), 75)
    assert message.startswith("The disk is full: shards cannot be written to ")
    assert message.endswith("Free some space, then give the same command again.")
    (first,) = home.path.glob("jobs/*/shards/*.parquet")
    written = first.stat().st_mtime_ns
    assert submit(rows).exit_code == 0
    assert len(home.results("night")) == 3
    assert first.stat().st_mtime_ns == written
    assert home.faults("night") == []


def test_a_disk_that_is_full_for_the_output_costs_no_answer(home, submit, rows, tmp_path):
    full, free = tmp_path / "full.csv", tmp_path / "free.csv"
    full.symlink_to("/dev/full")
    result = submit(rows, "--output", full)
    assert (result.exit_code, result.stdout) == (75, "")
    why = "the disk is full. Free some space, then give the same command again."
    assert f"Error: {full} could not be written: {why}" in result.stderr
    assert len(home.results("night")) == 3
    assert home.call("results", "night", "--output", free).exit_code == 0
    assert len(free.read_text().splitlines()) == 4


def test_an_output_that_cannot_be_written_is_told_before_anything_is_answered(
    home, submit, rows, told, tiny_model, tmp_path
):
    (tmp_path / "in.jsonl").write_text(
        json.dumps({"custom_id": "a", "url": "/v1/completions", "body": {"prompt": "x"}})
    )
    batch = ("run-batch", "-i", tmp_path / "in.jsonl", "--model", tiny_model)
    # Nobody makes a file there, not even root.
    for done, path in (
        (submit(rows, "--output", "/proc/a.csv"), "/proc/a.csv"),
        (home.call(*batch, "-o", "/proc/a.jsonl"), "/proc/a.jsonl"),
        (home.call(*batch, "-o", tmp_path / "a.jsonl", "--error-file", "/proc/b.jsonl"), "/proc/b.jsonl"),
    ):
        assert told(done, 1) == (
            f"{path} cannot be written: No such file or directory. Give a file in a directory that you may write to."
        )
    assert not home.path.exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.jsonl", "rows.parquet"]
