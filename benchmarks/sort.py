"""How fast, and in how much memory, a table is sorted into shards: 200 MB of texts, and ten times as many.

Every text is a document of 2,000 characters that comes up ten times, far apart.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import report

from pipeline.ingest.inputs import resolve
from pipeline.ingest.shards import cut
from pipeline.ingest.sorted_shards import Sorting, sort_into_shards
from pipeline.settings import Settings

TIMES = 10
CHARACTERS = 2000
GOAL_MB = 600
HEAD = ("rows", "MB of text", "rows/s", "MB resident", "goal")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000, help="of the smaller table (default: 100,000)")
    parser.add_argument("--sort", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.sort:
        print(json.dumps(sort_once(arguments.sort)))
        return
    print(report.machine())
    print(report.table(HEAD, [measured(rows) for rows in (arguments.rows, 10 * arguments.rows)]))


def measured(rows: int) -> tuple[int, float, float, float, int]:
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "rows.parquet"
        generate(path, rows)
        command = [sys.executable, __file__, "--sort", str(path)]
        facts = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return rows, rows * CHARACTERS / 1e6, facts["rows_s"], facts["mb"], GOAL_MB


def sort_once(path: Path) -> dict[str, float]:
    started, size = time.perf_counter(), Settings().shard_rows
    with tempfile.TemporaryDirectory(dir=path.parent) as directory:
        pages = list(cut(resolve([str(path)]), directory, shard_rows=size, key=None, limit=None))
        sorting = Sorting(("document", "question"), None, size, Path(directory))
        rows = sum(shard.row_to - shard.row_from for shard in sort_into_shards(pages, directory, sorting))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"rows_s": rows / (time.perf_counter() - started), "mb": peak}


def generate(path: Path, rows: int) -> None:
    schema = pa.schema([("document", pa.string()), ("question", pa.string())])
    with pq.ParquetWriter(path, schema, use_dictionary=False, compression="zstd") as file:
        for batch in batches(rows):
            file.write_batch(batch)


def batches(rows: int, size: int = 1 << 14) -> Iterator[pa.RecordBatch]:
    documents = max(1, rows // TIMES)
    for start in range(0, rows, size):
        ids = range(start, min(start + size, rows))
        texts = [f"{row * 7919 % documents:x} of the documents, {row % documents:x}. " for row in ids]
        filled = [(text * (CHARACTERS // len(text) + 1))[:CHARACTERS] for text in texts]
        yield pa.RecordBatch.from_pydict({"document": filled, "question": [f"{row:x}?" for row in ids]})


if __name__ == "__main__":
    main()
