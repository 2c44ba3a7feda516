"""Rows of the same prompt, answered once by a fleet, and copied by the next job; a row that several questions share."""

import json

import pyarrow as pa
import pyarrow.parquet as pq

from tests.fleet.marks import on_sqlite


@on_sqlite
def test_the_same_rows_are_answered_once_and_copied_later(fleet, name, tmp_path):
    texts = ["lovely light", "day two", "lovely light", None, "cup", "day two"] * 4
    path = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"text": texts, "id": [f"k{row}" for row in range(len(texts))]}), path)
    for job, flags in ((name, ()), (f"{name}-again", ("--reuse-results",))):
        fleet.submit(path, job, "--keep-order", *flags, PIPELINE_SHARD_ROWS="6")
        fleet.until_done(job)
    once, again = fleet.seen.results(name), fleet.seen.results(f"{name}-again")
    assert [row.key for row in once] == [row.key for row in again] == [f"k{row}" for row in range(len(texts))]
    by_text = {text: {row.output for row, its in zip(once, texts, strict=True) if its == text} for text in texts}
    assert {len(outputs) for outputs in by_text.values()} == {1}
    assert [row.output for row in once] == [row.output for row in again]
    assert sum(row.reused_tokens < row.prompt_tokens for row in once) == 3
    assert [row.copied_from is not None for row in again] == [text is not None for text in texts]


@on_sqlite
def test_several_questions_over_one_row(fleet, name, tmp_path):
    texts = ["a lovely light " * 9, "day two " * 12, None, "cup " * 30] * 3
    pq.write_table(pa.table({"text": texts, "id": [f"k{row}" for row in range(len(texts))]}), tmp_path / "rows.parquet")
    questions = {
        "mood": {"prompt": " Good or bad?", "choices": ["good", "bad"]},
        "gist": {"prompt": " In short:", "max_tokens": 4},
        "tale": {"prompt": " And then", "max_tokens": 3, "temperature": 1.0},
    }
    (tmp_path / "job.yaml").write_text(json.dumps({"questions": questions}))
    asked = ("--job", str(tmp_path / "job.yaml"), "--max-tokens", "256")
    fleet.submit(tmp_path / "rows.parquet", name, *asked, PIPELINE_SHARD_ROWS="18")
    fleet.until_done(name)
    fleet.seen.require_closed(name)
    lines = [json.loads(line) for line in fleet.run("results", name, "--format", "jsonl").stdout.splitlines()]
    assert [(line["id"], line["text"]) for line in lines] == [(f"k{row}", text) for row, text in enumerate(texts)]
    for line in lines:
        ended = {line[f"{question}_status"] for question in questions}
        assert ended == {"error"} if line["text"] is None else ended <= {"ok", "truncated"}
        assert (line["mood"] in ("good", "bad")) == (line["text"] is not None)
