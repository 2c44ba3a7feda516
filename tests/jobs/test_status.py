import json
from datetime import UTC, datetime

import pytest

from pipeline.buckets import PlannedBatch
from workers.process import Members


def keys(shard):
    return [(row, f"r{row}") for row in range(shard.row_from, shard.row_to)]


def test_a_done_job(desk, run):
    desk.done("night")
    result = run("status", "night")
    assert result.exit_code == 0
    assert result.stdout == (
        "night is done: 6 rows finished.\n"
        "\n"
        "rows      4 ok, 1 truncated, 1 error\n"
        "speed     0.8 rows/s over 6.0 s\n"
        "prompts   3,000 tokens computed, 9,000 reused (75%)\n"
        "answers   60 tokens\n"
        "seconds   encode 0.80, prefix 0.60, prefill 0.90, decode 1.20, detokenize 1.50, record 0.00\n"
        "\n"
        "pipeline results night  shows the answers\n"
        "pipeline results night --status error  shows what went wrong\n"
        "pipeline retry night  answers the 1 error row again\n"
    )


def test_an_interrupted_job(desk, run):
    job = desk.running("my night", batches=1)
    desk.ledger.fail_note(job.id, "The disk is full. Free some space.")
    assert run("status", "my night").stdout == (
        "my night was interrupted: 3 of 6 rows finished, and nothing of that is lost.\n"
        "\n"
        "rows      1 ok, 1 truncated, 1 error, 3 waiting\n"
        "speed     1.0 rows/s over 2.0 s\n"
        "prompts   1,000 tokens computed, 3,000 reused (75%)\n"
        "answers   20 tokens\n"
        "seconds   encode 0.60, prefix 0.20, prefill 0.30, decode 0.40, detokenize 0.50, record 0.00\n"
        "stopped   The disk is full. Free some space.\n"
        "\n"
        "pipeline resume 'my night'  goes on where it stopped\n"
    )


def test_a_running_job(desk, run):
    job = desk.running("busy", batches=1)
    with Members(desk.home).joined(job.id):
        lines = run("status", "busy").stdout.splitlines()
    assert lines[0] == "busy is running: 3 of 6 rows finished."
    assert lines[-2:] == [
        "pipeline results busy  shows the answers",
        "pipeline cancel busy  stops it; what is answered stays",
    ]


def test_a_cancelled_job(desk, run):
    job = desk.running("gone", batches=1)
    desk.ledger.cancel(job.id, keys)
    lines = run("status", "gone").stdout.splitlines()
    assert lines[0] == "gone is cancelled: 3 rows had been recorded before."
    assert lines[2] == "rows      1 ok, 1 truncated, 1 error, 3 cancelled"
    assert lines[-1] == "pipeline resume gone  goes on where it stopped"


def test_a_job_that_is_being_cut(desk, run):
    job = desk.cutting("new")
    with Members(desk.home).joined(job.id):
        assert run("status", "new").stdout == (
            "new is being cut: its input is still being read.\n"
            "\n"
            "rows      none yet\n"
            "\n"
            "pipeline cancel new  stops it; what is answered stays\n"
        )


def test_a_job_whose_cutting_was_interrupted(desk, run):
    desk.cutting("new")
    assert run("status", "new").stdout == (
        "new was interrupted while its input was being read; nothing recorded is lost.\n"
        "\n"
        "rows      none yet\n"
        "\n"
        "pipeline resume new  goes on where it stopped\n"
    )


@pytest.mark.parametrize("ref", ["night", "id", "start", "last", None])
def test_a_job_goes_by_name_by_id_and_by_being_the_last(desk, run, ref):
    desk.done("day")
    job = desk.done("night")
    arguments = {"id": [job.id], "start": [job.id[:8]], None: []}.get(ref, [ref])
    assert run("status", *arguments).stdout.startswith("night is done")


def test_an_unknown_job_is_told_the_nearest(desk, run):
    desk.done("night")
    result = run("status", "nigth")
    assert result.exit_code == 3
    assert result.stderr == 'Error: There is no job "nigth". Did you mean "night"?\n'


def test_texts_that_were_cut_or_held_special_tokens_are_counted(desk, run):
    job = desk.cutting("new")
    desk.ledger.record_encoding(job.id, 0, [PlannedBatch((0, 1, 2, 3), 9)], [], 0.5, n_cut=2, n_neutralised=1)
    assert "texts     2 rows were cut to fit; 1 row holds special tokens of the model" in run("status", "new").stdout
    assert json.loads(run("status", "new", "--json").stdout)["texts"] == {"cut": 2, "neutralised": 1}


def test_json(desk, run):
    job = desk.done("night")
    told = json.loads(run("status", "--json").stdout)
    assert {name: pytest.approx(seconds) for name, seconds in told.pop("seconds").items()} == {
        "encode": 0.8,
        "queue": 0.0,
        "load": 0.0,
        "prefix": 0.6,
        "prefill": 0.9,
        "decode": 1.2,
        "detokenize": 1.5,
        "record": 0.0,
    }
    assert told == {
        "job": "night",
        "id": job.id,
        "state": "done",
        "rows": {"total": 6, "ok": 4, "truncated": 1, "error": 1, "cancelled": 0, "copied": 0},
        "submitted_at": datetime.fromtimestamp(job.submitted_at, UTC).isoformat(),
        "finished_at": datetime.fromtimestamp(desk.clock.now, UTC).isoformat(),
        "active_seconds": 6.0,
        "rows_per_second": pytest.approx(5 / 6),
        "prompt_tokens": {"computed": 3000, "reused": 9000, "reuse_achieved": 0.75, "reuse_predicted": None},
        "output_tokens": 60,
        "texts": {"cut": 0, "neutralised": 0},
        "error": None,
        "difference": None,
        "notice_error": None,
        "purged": {"shards": None, "results": None},
        "next": ["pipeline results night", "pipeline results night --status error", "pipeline retry night"],
    }
