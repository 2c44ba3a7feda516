import json
import struct

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline.rows import BatchTiming, Completion, Status
from pipeline.store.export import Wanted, export, preview
from pipeline.store.queries import embedding_width

VECTOR = (0.1, -2.5e-20, 3.0)


@pytest.fixture
def job(ledger, road, tmp_path):
    """Of three rows, of which the last one is not embedded yet, and the middle one is an error."""
    job = ledger.create_job(None, '{"embed": "mean"}', "", "", "")
    pq.write_table(pa.table({"text": ["a", "b", "c"]}), tmp_path / "0.parquet")
    ledger.add_shard(job.id, 0, str(tmp_path / "0.parquet"), 0, 3)
    ledger.finish_cutting(job.id, 3)
    road.encode(job, failed=[1], batch_rows=1)
    return job


def embed(ledger, job):
    claim = ledger.claim(job.id, "a", 60)
    answer = Completion(0, "0", Status.OK, embedding=struct.pack("<3f", *VECTOR))
    assert ledger.finish(claim, [answer], BatchTiming(), "cpu")


def test_a_file_has_a_list_of_fixed_size(engine, ledger, job, tmp_path):
    embed(ledger, job)
    assert embedding_width(engine, job.id) == 3
    assert export(engine, job, "parquet", tmp_path / "out.parquet") == 2
    column = pq.read_table(tmp_path / "out.parquet")["embedding"]
    assert str(column.type).endswith("[3]")
    assert column.to_pylist() == [list(struct.unpack("<3f", struct.pack("<3f", *VECTOR))), None]
    export(engine, job, "jsonl", tmp_path / "out.jsonl")
    found = [json.loads(line)["embedding"] for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert found == column.to_pylist()


def test_before_the_first_one_nobody_knows_its_size(engine, job, tmp_path):
    assert embedding_width(engine, job.id) is None
    assert export(engine, job, "parquet", tmp_path / "out.parquet") == 1
    assert [row["embedding"] for row in preview(engine, job, Wanted(limit=5))] == [None]
