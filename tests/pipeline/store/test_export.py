import csv
import datetime
import io
import json
import math
import uuid
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline.rows import BatchTiming, Completion, LikelyToken, Sample, Status, TokenLogprob
from pipeline.store.export import Wanted, export, preview

TEXT = ["plain", 'q"uo,te\nline', "", None, "日本 🎉", " spaces "]
RESULT = ["status", "output", "finish_reason", "error_type", "error"]
TOKENS = ["prompt_tokens", "reused_tokens", "output_tokens"]


def test_csv_joins_answers_to_rows(engine, reviews, tmp_path):
    assert export(engine, reviews, "csv", tmp_path / "out.csv") == 5
    header, *rows = csv.reader((tmp_path / "out.csv").open(newline="", encoding="utf-8"))
    assert header == ["row_id", "id", "text", "stars", *RESULT, *TOKENS]
    assert rows[0] == ["0", "r0", "plain", "5", "ok", "answer 0", "stop", "", "", "7", "0", "2"]
    assert rows[1] == ["1", "r1", TEXT[1], "", "error", "", "", "bad", "It is bad.", "0", "0", "0"]
    assert [row[2] for row in rows] == ["plain", TEXT[1], "", "", "日本 🎉"]


def test_csv_tells_the_empty_string_from_null(engine, reviews, tmp_path):
    export(engine, reviews, "csv", tmp_path / "out.csv")
    lines = (tmp_path / "out.csv").read_text().splitlines()
    assert lines[4].startswith('2,"r2","",1,')
    assert lines[5].startswith('3,"r3",,2,')


def test_jsonl_joins_answers_to_rows(engine, reviews, tmp_path):
    assert export(engine, reviews, "jsonl", tmp_path / "out.jsonl") == 5
    rows = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [row["text"] for row in rows] == TEXT[:5]
    assert rows[1] == {
        "row_id": 1, "id": "r1", "text": TEXT[1], "stars": None,
        "status": "error", "output": None, "finish_reason": None, "error_type": "bad", "error": "It is bad.",
        "prompt_tokens": 0, "reused_tokens": 0, "output_tokens": 0,
    }  # fmt: skip
    assert "日本 🎉" in (tmp_path / "out.jsonl").read_text(encoding="utf-8")


def test_parquet_keeps_the_types(engine, reviews, tmp_path):
    assert export(engine, reviews, "parquet", tmp_path / "out.parquet") == 5
    table = pq.read_table(tmp_path / "out.parquet")
    assert table.schema.field("stars").type == pa.int64()
    assert table.column_names == ["row_id", "id", "text", "stars", *RESULT, *TOKENS]
    assert all(field.metadata is None for field in table.schema)
    assert table.column("row_id").to_pylist() == [0, 1, 2, 3, 4]
    assert table.to_pylist() == preview(engine, reviews, Wanted(limit=100))


def test_choices_bring_label_and_score(engine, ledger, exported_job):
    job = exported_job(pa.table({"text": TEXT[:3]}), '{"choices": ["yes", "no"]}')
    claim = ledger.claim(job.id, "a", 60)
    answer = Completion(2, "2", Status.OK, "yes", label="yes", score=0.75, finish_reason="choice")
    assert ledger.finish(claim, [answer], BatchTiming(), "cpu")
    row = preview(engine, job, Wanted(limit=5))[2]
    assert list(row) == ["row_id", "text", "status", "output", "label", "score", *RESULT[2:], *TOKENS, "scores"]
    assert (row["label"], row["score"]) == ("yes", 0.75)


def test_json_is_a_value_in_json_lines_and_text_elsewhere(engine, ledger, exported_job, tmp_path):
    """Also where the input has a column of that name, or the value half of a pair of surrogates."""
    job = exported_job(pa.table({"parsed": TEXT[:3]}), '{"json_schema": "{}"}')
    parsed = '{"b": ["\\ud83d", "é\\u0000"], "a": 1}'
    answer = Completion(2, "2", Status.OK, parsed, finish_reason="stop", parsed=parsed)
    assert ledger.finish(ledger.claim(job.id, "a", 60), [answer], BatchTiming(), "cpu")
    for file_format in ("jsonl", "csv", "parquet"):
        assert export(engine, job, file_format, tmp_path / file_format) == 3
    *_, line = (tmp_path / "jsonl").read_text(encoding="utf-8").splitlines()
    assert list(json.loads(line)["result_parsed"]) == ["b", "a"]
    assert json.loads(line)["result_parsed"] == json.loads(parsed)
    assert json.loads(line)["parsed"] == TEXT[2]
    *_, row = csv.DictReader((tmp_path / "csv").open(newline="", encoding="utf-8"))
    assert row["result_parsed"] == parsed
    assert pq.read_table(tmp_path / "parquet")["result_parsed"].to_pylist() == [None, None, parsed]


ASKED = '{"n": 2, "logprobs": 1, "max_tokens": %d}'
LOGPROBS = (TokenLogprob(4, " é", -0.5, (LikelyToken(9, '"', -0.25),)), TokenLogprob(2, "", -1.0))
SAMPLES = (Sample(" é", "stop", 2, LOGPROBS), Sample("x", "length", 1, LOGPROBS[1:]))
TOP = [{"token_id": 9, "token": '"', "logprob": -0.25}]
PLAIN_LOGPROBS = [
    {"token_id": 4, "token": " é", "logprob": -0.5, "top": TOP},
    {"token_id": 2, "token": "", "logprob": -1.0, "top": []},
]
PLAIN_SAMPLES = [
    {"output": " é", "finish_reason": "stop", "output_tokens": 2, "logprobs": PLAIN_LOGPROBS},
    {"output": "x", "finish_reason": "length", "output_tokens": 1, "logprobs": PLAIN_LOGPROBS[1:]},
]


@pytest.fixture
def sampled(ledger, exported_job):
    """A job of six rows with two samples each; row 1 failed."""

    def make(max_tokens: int = 4):
        job = exported_job(pa.table({"text": TEXT}), ASKED % max_tokens, answered=0)
        while claim := ledger.claim(job.id, "a", 60):
            (row_id,) = claim.row_ids
            answer = Completion(
                row_id, str(row_id), Status.TRUNCATED, " é", output_tokens=3, samples=SAMPLES, logprobs=LOGPROBS
            )
            assert ledger.finish(claim, [answer], BatchTiming(), "cpu")
        return job

    return make


def test_samples_and_logprobs_are_nested_in_parquet(engine, sampled, tmp_path):
    assert export(engine, sampled(), "parquet", tmp_path / "out.parquet") == 6
    table = pq.read_table(tmp_path / "out.parquet")
    assert table.column_names[-2:] == ["samples", "logprobs"]
    assert table.column("logprobs").to_pylist() == [PLAIN_LOGPROBS, None, *[PLAIN_LOGPROBS] * 4]
    assert table.column("samples").to_pylist() == [PLAIN_SAMPLES, None, *[PLAIN_SAMPLES] * 4]


def test_they_are_nested_in_json_lines_and_json_in_csv(engine, sampled, tmp_path):
    job = sampled()
    export(engine, job, "jsonl", tmp_path / "out.jsonl")
    export(engine, job, "csv", tmp_path / "out.csv")
    first, second, *_ = map(json.loads, (tmp_path / "out.jsonl").read_text(encoding="utf-8").splitlines())
    assert (first["samples"], first["logprobs"]) == (PLAIN_SAMPLES, PLAIN_LOGPROBS)
    assert (second["samples"], second["logprobs"]) == (None, None)
    first, second, *_ = csv.DictReader((tmp_path / "out.csv").open(newline="", encoding="utf-8"))
    assert (json.loads(first["samples"]), json.loads(first["logprobs"])) == (PLAIN_SAMPLES, PLAIN_LOGPROBS)
    assert (second["samples"], second["logprobs"]) == ("", "")


@pytest.mark.parametrize("file_format", ["csv", "jsonl", "parquet"])
@pytest.mark.parametrize("max_tokens", [1, 1 << 15, 1 << 20])
def test_rows_that_hold_much_are_written_a_few_at_a_time(engine, sampled, file_format, max_tokens):
    def row_ids(**chosen) -> list[int]:
        stream = io.BytesIO()
        export(engine, job, file_format, stream, **chosen)
        return read(stream.getvalue(), file_format)

    job = sampled(max_tokens)
    assert row_ids() == [0, 1, 2, 3, 4, 5]
    assert row_ids(limit=5) == [0, 1, 2, 3, 4]
    assert row_ids(status=Status.TRUNCATED, limit=4) == [0, 2, 3, 4]
    assert [row["text"] for row in preview(engine, job, Wanted(limit=6))] == TEXT


@pytest.mark.parametrize("file_format", ["csv", "jsonl", "parquet"])
def test_status_and_limit_choose_rows(engine, reviews, file_format):
    def row_ids(**chosen) -> list[int]:
        stream = io.BytesIO()
        count = export(engine, reviews, file_format, stream, **chosen)
        found = read(stream.getvalue(), file_format)
        assert len(found) == count
        return found

    assert row_ids(status=Status.ERROR) == [1]
    assert row_ids(status=Status.OK) == [0, 2, 3, 4]
    assert row_ids(status=Status.OK, limit=2) == [0, 2]
    assert row_ids(limit=5) == [0, 1, 2, 3, 4]
    assert row_ids(limit=4) == [0, 1, 2, 3]
    assert row_ids(status=Status.CANCELLED) == []


def read(content: bytes, file_format: str) -> list[int]:
    if file_format == "parquet":
        return pq.read_table(io.BytesIO(content)).column("row_id").to_pylist()
    if file_format == "jsonl":
        return [json.loads(line)["row_id"] for line in content.splitlines()]
    return [int(row["row_id"]) for row in csv.DictReader(io.StringIO(content.decode(), newline=""))]


def test_a_preview_is_a_few_rows(engine, reviews):
    assert [row["row_id"] for row in preview(engine, reviews, Wanted(limit=2))] == [0, 1]
    assert [row["error"] for row in preview(engine, reviews, Wanted(Status.ERROR, limit=2))] == ["It is bad."]


def test_clashing_names_get_a_prefix(engine, exported_job):
    names = ["row_id", "status", "error", "result_error"]
    job = exported_job(pa.table({name: [name] * 3 for name in names}))
    row = preview(engine, job, Wanted(limit=1))[0]
    assert list(row) == [
        "result_row_id", *names,
        "result_status", "output", "finish_reason", "error_type", "result_result_error", *TOKENS,
    ]  # fmt: skip
    assert (row["status"], row["result_status"], row["result_row_id"]) == ("status", "ok", 0)


def test_values_that_csv_and_json_have_no_word_for(engine, exported_job, tmp_path):
    table = pa.table(
        {
            "list": pa.array([[1, None], None, [], [2]]),
            "struct": pa.array([{"a": "é", "b": b"x"}] * 4),
            "map": pa.array([[("k", 1)]] * 4, pa.map_(pa.string(), pa.int64())),
            "bytes": pa.array([b"\xff\x00", None, b"", b"a"]),
            "when": pa.array([datetime.datetime(2026, 11, 29, 1, 2, 3)] * 4),
            "price": pa.array([Decimal("1.50")] * 4),
            "number": pa.array([math.nan, math.inf, 0.5, None]),
            "word": pa.array(["a", "b", "a", None]).dictionary_encode(),
            "nothing": pa.nulls(4),
        }
    )
    job = exported_job(table)
    export(engine, job, "csv", tmp_path / "out.csv")
    export(engine, job, "jsonl", tmp_path / "out.jsonl")
    export(engine, job, "parquet", tmp_path / "out.parquet")
    cells = next(csv.DictReader((tmp_path / "out.csv").open(newline="", encoding="utf-8")))
    assert [cells[name] for name in table.column_names] == [
        "[1, null]", '{"a": "é", "b": "eA=="}', '[["k", 1]]', "/wA=",
        "2026-11-29 01:02:03.000000", "1.50", "nan", "a", "",
    ]  # fmt: skip
    first, second, _ = map(json.loads, (tmp_path / "out.jsonl").read_text(encoding="utf-8").splitlines())
    assert [first[name] for name in table.column_names] == [
        [1, None], {"a": "é", "b": "eA=="}, [["k", 1]], "/wA=", "2026-11-29T01:02:03", "1.50", None, "a", None
    ]  # fmt: skip
    assert (second["list"], second["bytes"], second["number"]) == (None, None, None)
    back = pq.read_table(tmp_path / "out.parquet").select(table.column_names)
    assert str(back.to_pylist()) == str(table.slice(0, 3).to_pylist())  # as text, since nan is not nan


def test_times_that_python_has_not_are_written_all_the_same(engine, exported_job):
    far = 10_000_000 * 86_400 * 1_000_000
    columns = {
        "length": pa.array([1999, None, 3], pa.duration("ns")),
        "clock": pa.array([1999, None, 3], pa.time64("ns")),
        "far": pa.array([far, None, 0], pa.timestamp("us")),
        "far_within": pa.array([[("k", far)], None, []], pa.map_(pa.string(), pa.timestamp("us"))),
        "uuid": pa.array([bytes(16), None, bytes(16)], pa.uuid()),
    }
    job, lines, cells = exported_job(pa.table(columns)), io.BytesIO(), io.BytesIO()
    assert export(engine, job, "jsonl", lines) == export(engine, job, "csv", cells) == 2
    row, cell = (
        json.loads(lines.getvalue().split(b"\n")[0]),
        next(csv.DictReader(io.StringIO(cells.getvalue().decode()))),
    )
    text = "29349-01-26 00:00:00.000000"
    assert [row[name] for name in columns] == [
        "0:00:00.000001",
        "00:00:00.000001",
        text,
        [["k", text]],
        str(uuid.UUID(int=0)),
    ]
    assert (cell["far"], cell["far_within"], cell["uuid"]) == (text, json.dumps([["k", text]]), row["uuid"])
    assert preview(engine, job, Wanted(limit=1))[0]["length"] == datetime.timedelta(microseconds=1)


@pytest.mark.parametrize("file_format", ["csv", "jsonl", "parquet"])
def test_a_job_without_results_is_an_empty_table(engine, ledger, file_format):
    stream = io.BytesIO()
    job = ledger.create_job(None, "{}", "", "", "")
    assert export(engine, job, file_format, stream) == 0
    assert read(stream.getvalue(), file_format) == []
    assert not stream.closed
