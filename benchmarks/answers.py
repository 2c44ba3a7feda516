"""What it costs to ask of many results, on SQLite and PostgreSQL: an export, a filtered count, a comparison."""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import report
from fleet_processes import PostgresServer
from sqlalchemy import insert

from pipeline.rows import LabelScore
from pipeline.settings import Settings
from pipeline.store.agreement import agreement
from pipeline.store.database import Database, open_database
from pipeline.store.export import Wanted, export_wanted
from pipeline.store.ledger import Ledger
from pipeline.store.queries import find_job
from pipeline.store.result_condition import result_condition
from pipeline.store.result_rows import count_rows
from pipeline.store.schema import results
from pipeline.store.table_files import Format
from pipeline.store.target_table import export_to_table
from pipeline.store.transactions import writing

SHARD_ROWS = 4096
SPEC = {"inputs": ["rows"], "model": "m", "prompt": "{text}", "choices": ["positive", "negative"]}
GOALS = {"export": "100,000 rows/s in 500 MB", "count": "2 s for ten million rows, on PostgreSQL"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000, help="of each of two jobs")
    parser.add_argument("--only", choices=("sqlite", "postgresql"))
    parser.add_argument("--measure", nargs=3, metavar=("PART", "URL", "DIRECTORY"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        part, url, directory = arguments.measure
        print(json.dumps(measured(PARTS[part], url, Path(directory))))
        return
    print(report.machine(), flush=True)
    for kind in (arguments.only,) if arguments.only else ("sqlite", "postgresql"):
        with tempfile.TemporaryDirectory() as directory, database(kind, Path(directory)) as url:
            compare(kind, url, Path(directory), arguments.rows)


def compare(kind: str, url: str, directory: Path, rows: int) -> None:
    started = time.perf_counter()
    for name in ("first", "second"):
        fill(open_database(Settings(database_url=url)), directory, name, rows)
    print(f"{kind}: {2 * rows / (time.perf_counter() - started):,.0f} rows/s recorded, in transactions of {SHARD_ROWS}")
    table = []
    for part in PARTS:
        command = [sys.executable, __file__, "--measure", part, url, str(directory)]
        facts = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        goal = GOALS.get(part.split()[0], "")
        table.append([part, facts["seconds"], facts["cpu"], int(rows / facts["seconds"]), int(facts["mb"]), goal])
    print(report.table(["what", "seconds", "CPU s", "rows/s", "MB", "goal"], table), flush=True)


@contextmanager
def database(kind: str, directory: Path) -> Iterator[str]:
    if kind == "sqlite":
        yield f"sqlite:///{directory}/pipeline.db"
        return
    server = PostgresServer()
    server.start()
    try:
        yield server.url
    finally:
        server.remove()


def fill(engine: Database, directory: Path, name: str, rows: int) -> None:
    """Each third label is another one in the second job."""
    job = Ledger(engine).create_job(name, json.dumps(SPEC), name, "model", "input")
    for shard_no, row_from in enumerate(range(0, rows, SHARD_ROWS)):
        ids = range(row_from, min(row_from + SHARD_ROWS, rows))
        path = directory / f"{name}-{shard_no:05}.parquet"
        pq.write_table(pa.table({"id": ids, "text": [f"The parcel {row} came late again." for row in ids]}), path)
        Ledger(engine).add_shard(job.id, shard_no, str(path), ids.start, ids.stop)
        with writing(engine) as connection:
            connection.execute(insert(results), [result(job.id, row, shift=name == "second") for row in ids])
    Ledger(engine).finish_cutting(job.id, rows)


def result(job_id: str, row: int, *, shift: bool) -> dict[str, object]:
    label = SPEC["choices"][(row // 2 + (shift and row % 3 == 0)) % 2]
    scores = (LabelScore(label, row % 1000 / 1000), LabelScore("other", 1 - row % 1000 / 1000))
    return {
        "job_id": job_id, "row_id": row, "key": str(row), "status": "ok", "output": label, "label": label,
        "score": row % 1000 / 1000, "finish_reason": "choice", "prompt_tokens": 90, "reused_tokens": 60,
        "output_tokens": 1, "attempt": 1, "batch_no": row // 128, "created_at": 1.0,
        "scores": scores,
    }  # fmt: skip


def measured(part: Callable[[Database, Path], object], url: str, directory: Path) -> dict[str, float]:
    engine = open_database(Settings(database_url=url))
    started, busy = time.perf_counter(), time.process_time()
    part(engine, directory)
    seconds, cpu = time.perf_counter() - started, time.process_time() - busy
    return {"seconds": seconds, "cpu": cpu, "mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}


def to_file(file_format: Format, *, with_input: bool) -> Callable[[Database, Path], object]:
    wanted = Wanted() if with_input else Wanted(columns=("key", "label", "score"), with_input=False)
    return lambda engine, directory: export_wanted(
        engine, find_job(engine, "first"), file_format, directory / f"out.{file_format}", wanted
    )


def to_table(engine: Database, directory: Path) -> object:
    wanted = Wanted(columns=("key", "label", "score"), with_input=False)
    return export_to_table(engine, find_job(engine, "first"), wanted, f"sqlite:///{directory}/target.db", None, "t")


def count(engine: Database, directory: Path) -> object:
    condition = result_condition("label = 'negative' and score > 0.9", engine)
    return count_rows(engine, find_job(engine, "first"), None, condition)


PARTS: dict[str, Callable[[Database, Path], object]] = {
    "export parquet, with the input": to_file("parquet", with_input=True),
    "export parquet, three columns": to_file("parquet", with_input=False),
    "export csv, with the input": to_file("csv", with_input=True),
    "export jsonl, with the input": to_file("jsonl", with_input=True),
    "table in SQLite, three columns": to_table,
    "count, by label and score": count,
    "compare": lambda engine, directory: agreement(engine, find_job(engine, "first"), find_job(engine, "second")),
}


if __name__ == "__main__":
    main()
