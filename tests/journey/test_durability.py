"""Whatever ends the process, nothing recorded is lost, nothing is answered twice, and the answers are the same."""

import os
import random
import signal

import pyarrow.parquet as pq
import pytest

from pipeline.journey import Journey

N_ROWS = 200
SMALL = {"PIPELINE_SHARD_ROWS": "25", "PIPELINE_BATCH_ROWS": "4"}


@pytest.fixture
def rows(table):
    numbers = random.Random(11)
    texts = ["".join(numbers.choices("abcdefgh  ", k=numbers.randrange(1, 60))) for _ in range(N_ROWS)]
    texts[90:130] = texts[20:60]  # in other shards
    texts[7], texts[60], texts[166] = None, "x" * 2000, ""
    return table(id=[f"row {place}" for place in range(N_ROWS)], text=texts)


@pytest.fixture
def arguments(rows, tiny_model):
    return [
        *("submit", str(rows), "--name", "night", "--model", str(tiny_model), "--key", "id"),
        *("--prompt", "Say it again: {text}", "--max-tokens", "12"),
    ]


def test_killed_at_random_moments_it_ends_like_an_undisturbed_run(make_home, arguments):
    calm, wild = make_home("calm", **SMALL), make_home("wild", **SMALL)
    assert calm.call(*arguments).exit_code == 0
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    moments = sorted(random.Random(seed).sample(range(N_ROWS - 20), 2))
    for moment in moments:
        process = wild.start(*arguments)
        wild.wait_until(process, lambda moment=moment: wild.figures("night").finished >= moment)
        process.kill()
        assert wild.figures("night").finished < N_ROWS
        arguments = ["resume", "night"]
    assert wild.call("resume", "night").exit_code == 0
    assert wild.faults("night") == []
    assert wild.answers("night") == calm.answers("night")
    assert sorted(wild.answers("night")) == list(range(N_ROWS))


def test_killed_while_reading_the_input_it_goes_on_reading_unless_the_input_has_changed(make_home, arguments, rows):
    home = make_home(PIPELINE_SHARD_ROWS="1", PIPELINE_BATCH_ROWS="64")
    process = home.start(*arguments)
    home.wait_until(process, lambda: 0 < len(list(home.path.glob("jobs/*/shards/*.parquet"))) < N_ROWS)
    process.kill()
    assert home.figures("night").total is None
    whole = rows.read_bytes()
    pq.write_table(pq.read_table(rows).slice(1), rows)
    refused = home.call("resume", "night")
    assert refused.exit_code == 4
    assert "The input of night has changed since its first rows were read" in refused.stderr
    rows.write_bytes(whole)
    assert home.call("resume", "night").exit_code == 0
    assert home.faults("night") == []
    assert sorted(home.answers("night")) == list(range(N_ROWS))


def test_asked_to_stop_it_ends_the_batch_and_says_how_to_go_on(make_home, arguments):
    home = make_home(**SMALL)
    process = home.start(*arguments)
    home.wait_until(process, lambda: home.figures("night").finished > 20)
    process.send_signal(signal.SIGTERM)
    assert process.wait() == 130
    recorded = home.figures("night").finished
    assert f"{recorded} of {N_ROWS} rows recorded; go on with: pipeline resume night" in process.errors
    assert "Traceback" not in process.errors
    assert home.figures("night").batches["leased"] == 0


def test_asked_to_stop_in_the_last_batch_the_job_is_done_and_says_so(home, submit, table, monkeypatch, tmp_path):
    monkeypatch.setattr(Journey, "answer", interrupted(Journey.answer))
    result = submit(table(text=["a", "b"]), "--output", tmp_path / "out.csv")
    assert result.exit_code == 0
    assert "Stopping after this batch. Ctrl-C again stops at once.\n" in result.stderr
    assert "All rows were recorded by then, so the job is done.\n" in result.stderr
    assert "go on with" not in result.stderr
    assert len((tmp_path / "out.csv").read_text().splitlines()) == 3


def interrupted(answer):
    """The same, with a Ctrl-C behind it."""

    def answer_and_interrupt(self, claim):
        found = answer(self, claim)
        os.kill(os.getpid(), signal.SIGINT)
        return found

    return answer_and_interrupt


def test_a_second_ctrl_c_stops_within_the_batch(make_home, arguments):
    """The batch in hand is given back, and the next run answers it."""
    home = make_home(PIPELINE_BATCH_ROWS="200", PIPELINE_BATCH_TOKENS="1000000")
    process = home.start(*arguments[:-1], "400")
    home.wait_until(process, lambda: home.figures("night").batches["leased"] == 1)
    process.send_signal(signal.SIGINT)
    home.wait_until(process, lambda: "Stopping after this batch" in process.errors)
    process.send_signal(signal.SIGINT)
    assert process.wait() == 130
    assert "2 of 200 rows recorded; go on with: pipeline resume night" in process.errors
    assert home.figures("night").batches["pending"] == 1


def test_two_runs_of_one_job_share_its_batches(make_home, arguments):
    home = make_home(**SMALL)
    first = home.start(*arguments)
    home.wait_until(first, lambda: home.figures("night").finished > 20)
    second = home.start("resume", "night")
    for process in (first, second):
        assert process.wait() == 0, process.errors
    assert home.faults("night") == []
    assert sorted(home.answers("night")) == list(range(N_ROWS))


def test_cancel_stops_a_run_within_a_batch_and_resume_goes_on(make_home, arguments):
    home = make_home(**SMALL)
    process = home.start(*arguments)
    home.wait_until(process, lambda: home.figures("night").finished > 20)
    assert home.call("cancel", "night").exit_code == 0
    assert process.wait() == 130
    assert "The job was cancelled: " in process.errors
    assert home.faults("night") == []
    statuses = [answer[1] for answer in home.answers("night").values()]
    assert len(statuses) == N_ROWS
    assert statuses.count("cancelled") > 0
    assert home.call("resume", "night").exit_code == 0
    assert home.faults("night") == []
    assert "cancelled" not in [answer[1] for answer in home.answers("night").values()]
