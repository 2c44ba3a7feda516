"""Several answers to a row, and how likely each of their tokens was: from the flags to the files."""

import json
import math

import pyarrow.parquet as pq
import pytest

TEXTS = ["tea", "milk", None, "a much longer text about tea", "", "tea, please"]
DRAWN = ("--temperature", "1.5", "--max-tokens", "8")


@pytest.fixture
def rows(table):
    return table(text=TEXTS)


def texts(result):
    return [sample.output for sample in result.samples]


def test_every_row_has_all_its_samples_and_the_first_is_its_output(home, submit, rows):
    assert submit(rows, *DRAWN, "--n", "3").exit_code == 0
    found = home.results("night")
    assert [len(result.samples) for result in found] == [3, 3, 0, 3, 3, 3]
    assert found[2].error_type == "null"
    for result in found[:2] + found[3:]:
        assert result.output == result.samples[0].output
        assert result.output_tokens == sum(sample.output_tokens for sample in result.samples)
        cut = any(sample.finish_reason == "length" for sample in result.samples)
        assert (result.status, result.finish_reason) == (("truncated", "length") if cut else ("ok", "stop"))
        assert result.logprobs == ()
        assert len(set(texts(result))) == 3
    assert home.faults("night") == []


def test_samples_are_the_same_in_other_batches_and_however_many_there_are(home, submit, rows):
    home.variables["PIPELINE_BATCH_ROWS"] = "7"
    assert submit(rows, *DRAWN, "--n", "3").exit_code == 0
    home.variables |= {"PIPELINE_BATCH_ROWS": "1", "PIPELINE_SHARD_ROWS": "2"}
    assert submit(rows, *DRAWN, "--n", "5", "--name", "five").exit_code == 0
    assert submit(rows, *DRAWN, "--name", "one").exit_code == 0
    three, five, one = (home.results(name) for name in ("night", "five", "one"))
    assert [texts(result) for result in three] == [texts(result)[:3] for result in five]
    assert [result.output for result in three] == [result.output for result in one]


def test_every_token_has_its_logprob(home, submit, rows):
    assert submit(rows, "--logprobs", "2", "--raw").exit_code == 0
    assert submit(rows, "--raw", "--name", "bare").exit_code == 0
    found, bare = home.results("night"), home.results("bare")
    assert [result.output for result in found] == [result.output for result in bare]
    for result in found[:2] + found[3:]:
        assert len(result.logprobs) == result.output_tokens
        for token in result.logprobs:
            assert (token.token_id, token.logprob) == (token.top[0].token_id, token.top[0].logprob)
            assert 0 >= token.top[0].logprob >= token.top[1].logprob
            assert sum(math.exp(likely.logprob) for likely in token.top) <= 1 + 1e-6
    assert [len(result.logprobs) for result in bare] == [0] * len(TEXTS)
    assert (home.faults("night"), home.faults("bare")) == ([], [])


def test_temperature_and_penalties_leave_the_logprobs_alone(home, submit, rows):
    """Of the first token, before which all has gone alike."""
    assert submit(rows, "--logprobs", "20").exit_code == 0
    drawn = ("--temperature", "3", "--top-k", "5", "--repetition-penalty", "2")
    assert submit(rows, "--logprobs", "20", *drawn, "--name", "drawn").exit_code == 0
    for one, other in zip(home.results("night"), home.results("drawn"), strict=True):
        assert [token.top for token in one.logprobs[:1]] == [token.top for token in other.logprobs[:1]]


def test_files_hold_them_nested(home, submit, rows, tmp_path):
    path = tmp_path / "out.parquet"
    assert submit(rows, *DRAWN, "--n", "2", "--logprobs", "1", "--output", path).exit_code == 0
    lines = [json.loads(line) for line in home.call("results", "night").stdout.splitlines()]
    table = pq.read_table(path)
    assert table.column_names[-2:] == ["samples", "logprobs"]
    assert table.to_pylist() == lines
    assert [len(line["samples"] or ()) for line in lines] == [2, 2, 0, 2, 2, 2]
    assert [line["logprobs"] for line in lines if line["samples"]] == [
        line["samples"][0]["logprobs"] for line in lines if line["samples"]
    ]
