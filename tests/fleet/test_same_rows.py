"""Rows of the same prompt, answered once by a fleet, and copied by the next job."""

import pyarrow as pa
import pyarrow.parquet as pq

from tests.fleet.marks import on_sqlite


@on_sqlite
def test_the_same_rows_are_answered_once_and_copied_later(fleet, name, tmp_path):
    texts = ["lovely light", "day two", "lovely light", None, "cup", "day two"] * 4
    path = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"text": texts, "id": [f"k{row}" for row in range(len(texts))]}), path)
    for job, flags in ((name, ()), (f"{name}-again", ("--reuse-results",))):
        fleet.submit(path, job, *flags, PIPELINE_SHARD_ROWS="12")
        fleet.until_done(job)
    once, again = fleet.seen.results(name), fleet.seen.results(f"{name}-again")
    assert [row.key for row in once] == [row.key for row in again] == [f"k{row}" for row in range(len(texts))]
    by_text = {text: {row.output for row, its in zip(once, texts, strict=True) if its == text} for text in texts}
    assert {len(outputs) for outputs in by_text.values()} == {1}
    assert [row.output for row in once] == [row.output for row in again]
    assert sum(row.reused_tokens < row.prompt_tokens for row in once) == 3
    assert [row.copied_from is not None for row in again] == [text is not None for text in texts]
