"""How fast, and in how much memory, a big table is cut into shards: CSV, Parquet and JSON Lines against two goals."""

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
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from pipeline.ingest.inputs import resolve
from pipeline.ingest.shards import cut
from pipeline.settings import Settings

GOAL_ROWS_S = 100_000
GOAL_MB = 600
WORDS = ("the", "parcel", "came", "late", "but", "its", "staff", "were", "kind", "and", "fair", "so", "we", "order")
TEXT_CHARACTERS = 200


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=5_000_000, help="rows of 200 characters (default: 5 million)")
    parser.add_argument("--key", action="store_true", help="check that the ids are unique, too")
    parser.add_argument("--cut", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.cut:
        print(json.dumps(cut_once(arguments.cut, "id" if arguments.key else None)))
    else:
        compare(arguments.rows, ["--key"] if arguments.key else [])


def compare(rows: int, flags: list[str]) -> None:
    for kind in ("csv", "parquet", "jsonl"):
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory) / f"rows.{kind}"
            generate(path, rows)
            answer = subprocess.run(
                [sys.executable, __file__, "--cut", str(path), *flags], check=True, capture_output=True, text=True
            )
        facts = json.loads(answer.stdout)
        print(
            f"{kind:8} {facts['rows']:>10,} rows  {facts['rows_s']:>9,.0f} rows/s ({facts['rows_s'] / GOAL_ROWS_S:.1f}x"
            f" of {GOAL_ROWS_S:,})  {facts['mb']:>5.0f} MB resident ({facts['mb'] / GOAL_MB:.2f}x of {GOAL_MB})"
        )


def cut_once(path: Path, key: str | None) -> dict[str, float]:
    started = time.perf_counter()
    rows = 0
    with tempfile.TemporaryDirectory(dir=path.parent) as directory:
        source = resolve([str(path)])
        for shard in cut(source, directory, shard_rows=Settings().shard_rows, key=key, limit=None):
            rows = shard.row_to
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"rows": rows, "rows_s": rows / (time.perf_counter() - started), "mb": peak}


def generate(path: Path, rows: int) -> None:
    schema = pa.schema([("id", pa.int64()), ("text", pa.string())])
    if path.suffix == ".jsonl":
        with path.open("w", encoding="utf-8") as file:
            for batch in batches(rows):
                file.writelines(f"{json.dumps(row)}\n" for row in batch.to_pylist())
        return
    writer = pa_csv.CSVWriter if path.suffix == ".csv" else pq.ParquetWriter
    with writer(path, schema) as file:
        for batch in batches(rows):
            file.write_table(pa.Table.from_batches([batch]))


def batches(rows: int, size: int = 1 << 18) -> Iterator[pa.RecordBatch]:
    """Texts that differ and compress like text, not like zeros."""
    for start in range(0, rows, size):
        ids = range(start, min(start + size, rows))
        yield pa.RecordBatch.from_pydict({"id": list(ids), "text": [_text(row) for row in ids]})


def _text(row: int) -> str:
    chosen = " ".join(WORDS[(row * 31 + place * (row % 17 + 1)) % len(WORDS)] for place in range(40))
    return f"{row:x} {chosen} {'again ' * 40}"[:TEXT_CHARACTERS]


if __name__ == "__main__":
    main()
