"""`submit` where there is a fleet; the fleet's part is played with the real ledger."""

import json
import os
import re
import socket
import subprocess
import time

import pytest

from jobs.producer import producing
from pipeline.buckets import PlannedBatch
from pipeline.errors import RefusedError
from pipeline.prompts.vocabulary import Vocabulary
from pipeline.store.integrity import check_integrity
from pipeline.store.queries import find_job, list_jobs, list_shards
from pipeline.store.records import JobState, Role, WorkerState
from pipeline.store.registry import Registry
from tests.jobs.conftest import BROKER
from workers.tokenizer import TokenizerDesk


def encode(desk, job, shard):
    done = desk.real.record_encoding(
        job.id, shard.shard_no, [PlannedBatch(tuple(range(shard.row_from, shard.row_to)), 9)], [], 0.1
    )
    assert len(done) == 1


def test_with_a_broker_the_fleet_has_the_job_and_the_broker_is_not_needed(desk, submit):
    result = submit(**BROKER)
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("night is with the fleet: 5 rows to be answered.\nNo dispatcher lives ")
    assert "pipeline resume night --wait  follows it to its end" in result.stdout
    job = find_job(desk.database, "night")
    assert (job.fleet, job.state, job.priority, job.context) == (True, JobState.RUNNING, 0, 512)
    assert [(shard.row_from, shard.row_to) for shard in list_shards(desk.database, job.id)] == [(0, 2), (2, 4), (4, 5)]
    assert Registry(desk.database).all() == []
    assert "secret" not in result.output


def test_the_workers_find_the_tokenizer_beside_the_shards(desk, submit, tmp_path):
    assert submit(**BROKER, PIPELINE_SHARDS=(tmp_path / "shared").as_uri()).exit_code == 0
    job = find_job(desk.database, "night")
    assert job.tokenizer == f"file://{tmp_path}/shared/{job.id}/shards/tokenizer"
    directory = tmp_path / "shared" / job.id / "shards" / "tokenizer"
    assert len(Vocabulary(directory).ids(["Hello"])[0]) == 5
    assert all(shard.path.startswith("file://") for shard in list_shards(desk.database, job.id))


def test_what_the_chat_template_never_asks_for_is_told_there_too(desk, submit):
    result = submit("--template-var", "thinking=false", **BROKER)
    assert (
        result.exit_code,
        "Warning: The model's chat template asks for no variable thinking, " in result.stderr,
    ) == (0, True)


def seen(desk, ago_s, host="far", pid=1, role=Role.DISPATCHER):
    return Registry(desk.database, lambda: time.time() - ago_s).enter(role, host, pid)


def test_a_dispatcher_that_lived_within_a_day_is_a_fleet_which_is_said(desk, submit):
    seen(desk, 90_000)
    assert "fleet" not in submit("--name", "first").output
    assert not find_job(desk.database, "first").fleet
    seen(desk, 3600)
    result = submit("--name", "second")
    assert result.stdout.startswith("second is with the fleet: 5 rows to be answered.\nNo dispatcher lives on ")
    assert re.search(r"the last one, on far, fell silent 1:0\d:\d\d ago", result.stdout)
    assert "`pipeline resume second --here` answers it without a fleet." in result.stdout
    assert find_job(desk.database, "second").fleet


def test_a_fleet_of_this_machine_of_which_nothing_is_left_is_none_and_that_is_said(desk, submit):
    process = subprocess.Popen(["true"])
    process.wait()
    seen(desk, 60, socket.gethostname(), process.pid)
    seen(desk, 50, socket.gethostname(), process.pid, Role.GPU)
    result = submit("--name", "first")
    assert "This process answers the job, as the fleet that ran on this machine is gone" in result.stderr
    assert not find_job(desk.database, "first").fleet
    assert "is gone" not in submit("--name", "second", "--here").stderr
    seen(desk, 50, role=Role.GPU)
    assert submit("--name", "third").exit_code == 0
    assert find_job(desk.database, "third").fleet


def test_here_answers_here_although_there_is_a_fleet(desk, submit):
    result = submit("--here", **BROKER)
    assert result.exit_code == 0
    job = find_job(desk.database, "night")
    assert (job.fleet, job.state) == (False, JobState.DONE)


def test_the_priority_is_no_part_of_what_a_job_is(desk, submit):
    submit("--priority", "3", **BROKER)
    assert find_job(desk.database, "night").priority == 3
    again = submit("--priority", "-2", **BROKER)
    assert again.exit_code == 0
    assert "night is the same job as before." in again.stderr
    assert find_job(desk.database, "night").priority == -2


def test_json_is_the_standing(desk, submit):
    told = json.loads(submit("--json", **BROKER).stdout)
    assert (told["job"], told["state"], told["rows"]["total"]) == ("night", "running", 5)
    assert told["fleet"]["held_up"].startswith("No dispatcher lives")


def test_a_model_that_cannot_be_answered_is_refused_before_there_is_a_job(desk, submit, tiny_model, tmp_path):
    strange = tmp_path / "strange"
    strange.mkdir()
    for file in tiny_model.iterdir():
        (strange / file.name).write_bytes(file.read_bytes())
    config = json.loads((strange / "config.json").read_text())
    (strange / "config.json").write_text(json.dumps(config | {"model_type": "t5"}))
    result = submit("--model", str(strange), **BROKER)
    assert result.exit_code == 1
    assert "Models of type t5 have an encoder" in result.stderr
    assert list_jobs(desk.database) == []


def test_an_input_with_a_fault_is_no_job_where_nothing_is_begun(desk, submit, rows):
    rows.write_text(rows.read_text() + "r1,again\n")
    result = submit("--key", "id", **BROKER)
    assert result.exit_code == 1
    assert list_jobs(desk.database) == []
    assert not any((desk.home / "jobs").iterdir())


def test_an_input_with_a_fault_pauses_the_job_where_rows_may_be_answered(desk, submit, rows, at_shard):
    rows.write_text(rows.read_text() + "r1,again\n")

    def begin(job_id):
        job = find_job(desk.database, job_id)
        encode(desk, job, list_shards(desk.database, job_id)[0])
        assert desk.real.claim_batch(job_id, 0, "far/gpu.1", 60.0) is not None

    at_shard(0, begin)
    result = submit("--key", "id", **BROKER)
    assert result.exit_code == 1
    assert "6 rows of night had been taken before, and what is answered of them stays" in result.stderr
    job = find_job(desk.database, "night")
    assert (job.state, job.paused_at is None) == (JobState.CUTTING, False)
    assert job.error in result.stderr


def test_a_producer_is_in_the_registry_as_long_as_it_cuts(desk, submit, at_shard):
    seen, told = [], []
    at_shard(1, lambda job_id: seen.extend((job_id, one) for one in Registry(desk.database).all()))
    at_shard(1, lambda job_id: told.append((desk.home / "jobs" / job_id / "cutting.process").read_text()))
    submit(**BROKER)
    ((job_id, producer),) = seen
    assert told == [f"{os.getpid()} on {socket.gethostname()}"]
    assert not (desk.home / "jobs" / job_id / "cutting.process").exists()
    assert (producer.role, producer.state, producer.job_id) == (Role.PRODUCER, WorkerState.BUSY, job_id)
    assert Registry(desk.database).all() == []


@pytest.fixture
def far_apart(rows):
    """Twelve rows in shards of two, of which three each begin with the same long text."""
    texts = (f"{row % 4} is what this long text begins with. {'And so on. ' * 22}" for row in range(12))
    lines = (f'r{row},"{text} At last: {chr(ord("a") + row)}."' for row, text in enumerate(texts))
    rows.write_text("id,text\n" + "\n".join(lines) + "\n")
    return [(row, row + 4, row + 8) for row in range(4)]


def test_rows_are_sorted_before_the_fleet_has_them(desk, submit, run, far_apart, at_shard, tmp_path):
    def interrupt(job_id):
        raise KeyboardInterrupt

    wide = BROKER | {"PIPELINE_SHARD_ROWS": "3", "PIPELINE_SHARDS": (tmp_path / "shared").as_uri()}
    at_shard(1, interrupt)
    stopped = submit(**wide)
    assert stopped.exit_code == 130
    assert "Rows are answered sorted by text first: then about 6" in stopped.stderr
    job = find_job(desk.database, "night")
    assert (job.sorts_rows, len(list_shards(desk.database, job.id))) == (True, 2)
    assert run("resume", "night", **wide).exit_code == 0
    tokenizer = TokenizerDesk(desk.database, desk.settings, "host/tokenizer.1")
    for shard, row_ids in zip(list_shards(desk.database, job.id), far_apart, strict=True):
        tokenizer.encode(job.id, shard.shard_no)
        claim = desk.real.claim(job.id, "far/gpu.1", 60.0)
        assert (claim.shard_no, claim.row_ids) == (shard.shard_no, row_ids)
    assert check_integrity(desk.database, job.id) == []


def test_with_keep_order_they_are_not(desk, submit, far_apart):
    assert "sorted" not in submit("--keep-order", **BROKER).stderr
    job = find_job(desk.database, "night")
    assert (job.sorts_rows, len(list_shards(desk.database, job.id))) == (False, 6)
    assert job.predicted_reuse > 0.6
    assert submit(**BROKER).exit_code == 0  # it is the same job


def test_of_two_producers_the_later_is_refused_and_leaves_no_trace(desk):
    job = desk.cutting("new", fleet=True)
    with producing(desk.database, job):
        here = f"{os.getpid()} on {socket.gethostname()}"
        with (
            pytest.raises(RefusedError, match=f"by another process, {here}\\. .*resume new$"),
            producing(desk.database, job),
        ):
            pass
        assert len(Registry(desk.database).all()) == 1
    assert Registry(desk.database).all() == []
