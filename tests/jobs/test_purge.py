import json
import os
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from jobs.cli import cli
from pipeline.openai.endpoints import Usual
from pipeline.openai.groups import Group, sort_batch
from pipeline.store.integrity import check_integrity
from pipeline.store.purge import ended_before, purge
from pipeline.store.queries import find_job

LONG_AGO = 400 * 86_400


@pytest.fixture
def old(desk):
    """A done job and a cancelled one, which ended long ago; three that are not to be touched."""
    desk.clock.now -= LONG_AGO
    done, cancelled = desk.done("old"), desk.cutting("stopped")
    desk.ledger.cancel(cancelled.id, lambda shard: [])
    desk.running("running", batches=1)
    desk.cutting("cutting")
    paused = desk.running("paused")
    desk.ledger.pause(paused.id)
    desk.clock.now += 2 * LONG_AGO
    desk.done("new")
    return done


def shard_files(desk, job) -> list[Path]:
    return sorted(Path(desk.shards(job.id)).glob("*.parquet"))


def test_only_what_ended_long_ago_is_deleted_and_the_rest_stays(desk, run, old):
    told = run("purge", "--older-than", "30d", "--shards", "--yes")
    assert told.exit_code == 0
    assert re.fullmatch(r"shards: [1-9]\d* KiB freed, of 2 jobs\.\n", told.stdout)
    assert shard_files(desk, old) == []
    for name in ("running", "paused", "cutting", "new"):
        assert shard_files(desk, find_job(desk.database, name)), name
    kept = [json.loads(line) for line in run("results", "old", "--columns", "key,output").stdout.splitlines()]
    assert kept[0] == {"key": "r0", "output": "answer 0"}


def test_a_job_whose_shards_are_gone_says_so(desk, run, old):
    run("purge", "--older-than", "30d", "--shards", "--yes")
    assert "purged    its input on 20" in run("status", "old").stdout
    assert json.loads(run("status", "old", "--json").stdout)["purged"]["results"] is None
    for command in (
        ["results", "old"],
        ["results", "old", "--columns", "key", "--join-input"],
        ["retry", "old"],
        ["resume", "old"],
        ["resume", "stopped"],
        ["cancel", "stopped"],
    ):
        refused = run(*command)
        assert refused.exit_code == 4, command
        assert f"Error: The input of {command[1]} was purged on 20" in refused.stderr


def test_results_go_last_and_are_missed_with_a_sentence(desk, run, old):
    told = run("purge", "--older-than", "30d", "--yes").stdout.splitlines()
    assert [line.partition(":")[0] for line in told] == ["batches", "shards", "tokens", "results"]
    assert told[2] == "tokens: nothing to delete."
    assert told[3].endswith("which the database fills again.")
    for command in (
        ["results", "old"],
        ["retry", "old"],
        ["compare", "old", "new"],
        ["export", "old", "--output", "a.csv"],
    ):
        assert "Error: The answers of old were purged on 20" in run(*command).stderr
    assert run("status", "old").stdout.startswith("old is done: 6 rows finished.")
    assert check_integrity(desk.database, old.id) == []
    assert run("purge", "--older-than", "30d", "--yes").stdout.count("nothing to delete") == 4


def test_tokens_are_deleted_whatever_attempt_wrote_them(desk, run, old):
    place = Path(desk.shards(old.id), "00000-1.tokens")
    place.write_bytes(b"tokens")
    with desk.database.begin() as connection:
        connection.exec_driver_sql(f"UPDATE shards SET tokens = '{place}', fence = 1 WHERE shard_no = 0")
    assert run("purge", "--older-than", "30d", "--tokens", "--yes").stdout.startswith("tokens: 1 KiB freed, of ")
    assert not place.exists()


def test_an_interrupted_purge_is_taken_up_again(desk, run, old, monkeypatch):
    def interrupted(place: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("pipeline.store.purge.delete_place", interrupted)
    assert run("purge", "--older-than", "30d", "--shards", "--yes").exit_code == 130
    assert len(shard_files(desk, old)) == 2
    assert run("retry", "old").exit_code == 4
    monkeypatch.undo()
    [found, *_] = ended_before(desk.database, 86_400)
    assert purge(desk.database, found, "shards")
    assert shard_files(desk, old) == []


def test_a_job_that_goes_on_in_between_is_left_alone(desk, old):
    [found, *_] = ended_before(desk.database, 86_400)
    desk.real.retry_errors(old.id, 4)
    assert not purge(desk.database, found, "results")
    assert len(shard_files(desk, old)) == 2


def test_nobody_to_ask_is_nothing_deleted(desk, run, old):
    refused = run("purge", "--older-than", "30d")
    assert (refused.exit_code, refused.stdout) == (4, "")
    assert refused.stderr == (
        "Error: `pipeline purge` asks before it deletes, and nobody is here to answer. Give --yes.\n"
    )
    assert len(shard_files(desk, old)) == 2


def test_each_part_is_asked_for(desk, environment, old, monkeypatch):
    monkeypatch.setattr("click.testing._NamedTextIOWrapper.isatty", lambda stream: True)
    told = CliRunner(env=environment).invoke(cli, ["purge", "--older-than", "30d"], input="n\ny\n")
    asked = r"Delete the input as it was cut \(no row can be answered again then\), of 2 jobs: \d+ KiB\? \[y/N\]: n"
    assert re.search(asked, told.stdout)
    assert "Delete the answers, of 1 job: about 1 KiB? [y/N]: y" in told.stdout
    assert len(shard_files(desk, old)) == 2
    assert find_job(desk.database, "old").results_purged_at is not None


@pytest.fixture
def sorted_batch(desk):
    """What is kept of a batch file of one line, asked for long ago."""

    def sort(name: str) -> Group:
        batch, directory = desk.home / f"{name}.jsonl", desk.home / "batches" / name
        request = {"custom_id": "a", "url": "/v1/completions", "body": {"prompt": "S3CRET"}}
        batch.write_text(json.dumps(request))
        (group,) = sort_batch(batch, directory, Usual(9, "last")).groups
        os.utime(directory / "groups.json", (0, 0))
        return group

    return sort


def test_what_was_kept_of_a_batch_file_is_deleted_but_for_what_a_job_still_reads(desk, run, sorted_batch):
    desk.clock.now -= LONG_AGO
    of_nobody, old, going_on, recent = map(sorted_batch, ("of_nobody", "old", "going_on", "recent"))
    desk.ledger.cancel(desk.cutting("old", inputs=[str(old.rows)]).id, lambda shard: [])
    desk.cutting("cutting", inputs=[str(going_on.rows)])
    desk.clock.now += LONG_AGO
    sort_batch(desk.home / "recent.jsonl", recent.rows.parent, Usual(9, "last"))
    told = run("purge", "--older-than", "30d", "--batches", "--yes").stdout
    assert told == "batches: 1 KiB freed, of 2 files.\n"
    assert sorted(path.name for path in (desk.home / "batches").iterdir()) == ["going_on", "recent"]
    assert not any(group.rows.exists() for group in (of_nobody, old))


def test_a_batch_file_that_is_sorted_again_after_a_purge_is_the_same_input(run, sorted_batch):
    before = sorted_batch("one").rows.stat()
    run("purge", "--older-than", "30d", "--batches", "--yes")
    after = sorted_batch("one").rows.stat()
    assert after.st_ctime_ns != before.st_ctime_ns
    assert (after.st_size, after.st_mtime_ns) == (before.st_size, before.st_mtime_ns)
