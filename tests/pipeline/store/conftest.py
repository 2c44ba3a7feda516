"""A ledger on an empty database, with a clock that a test moves, and short ways to a job that is under way."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sqlalchemy import Engine

from pipeline.buckets import PlannedBatch
from pipeline.rows import BatchTiming, Completion, Status
from pipeline.settings import Settings
from pipeline.store.database import open_database
from pipeline.store.dispatch import Dispatch
from pipeline.store.ledger import Ledger
from pipeline.store.records import Claim, JobRecord, ShardRecord

TEXT = ["plain", 'q"uo,te\nline', "", None, "日本 🎉", " spaces "]


@dataclass
class Clock:
    now: float = 1_795_950_000.0  # 2026-11-29, UTC

    def __call__(self) -> float:
        return self.now


@dataclass
class Road:
    """Takes rows as far along as a test needs them."""

    ledger: Ledger

    def job(self, n_rows: int = 6, shard_rows: int = 3, name: str | None = None, **manner: Any) -> JobRecord:
        """A running job, cut but not encoded."""
        job = self.ledger.create_job(name, '{"choices": null}', "print", "model", "input", **manner)
        for shard_no, row_from in enumerate(range(0, n_rows, shard_rows)):
            path = f"/shards/{shard_no:05}.parquet"
            self.ledger.add_shard(job.id, shard_no, path, row_from, min(row_from + shard_rows, n_rows))
        self.ledger.finish_cutting(job.id, n_rows)
        return job

    def encode(self, job: JobRecord, failed: Sequence[int] = (), batch_rows: int = 2) -> None:
        """All shards; the rows in `failed` get no batch but an error."""
        while shard := self.ledger.next_unencoded_shard(job.id):
            rows = [row_id for row_id in range(shard.row_from, shard.row_to) if row_id not in failed]
            planned = [
                PlannedBatch(tuple(rows[first : first + batch_rows]), 10 * len(rows[first : first + batch_rows]))
                for first in range(0, len(rows), batch_rows)
            ]
            failures = [self.outcome(row_id, Status.ERROR) for row_id in shard_rows(shard) if row_id in failed]
            self.ledger.record_encoding(job.id, shard.shard_no, planned, failures, 0.5)

    def encoded_job(self, n_rows: int = 6, shard_rows: int = 3, failed: Sequence[int] = (), **manner: Any) -> JobRecord:
        job = self.job(n_rows, shard_rows, **manner)
        self.encode(job, failed)
        return job

    def outcome(self, row_id: int, status: Status = Status.OK) -> Completion:
        if status is Status.ERROR:
            return Completion(row_id, f"k{row_id}", status, error_type="bad", error="It is bad.")
        return Completion(
            row_id, f"k{row_id}", status, f"answer {row_id}", finish_reason="stop", prompt_tokens=7, output_tokens=2
        )

    def outcomes(self, claim: Claim, errors: Iterable[int] = ()) -> list[Completion]:
        errors = set(errors)
        return [self.outcome(row_id, Status.ERROR if row_id in errors else Status.OK) for row_id in claim.row_ids]

    def answer(self, job: JobRecord, batches: int | None = None, errors: Iterable[int] = ()) -> None:
        """So many batches, or all that there are."""
        while batches != 0 and (claim := self.ledger.claim(job.id, "worker", 60.0)):
            timing = BatchTiming(
                encode_s=0.1,
                prefix_s=0.2,
                prefill_s=0.3,
                decode_s=0.4,
                detokenize_s=0.5,
                computed_tokens=10,
                reused_tokens=4,
                output_tokens=3,
            )
            assert self.ledger.finish(claim, self.outcomes(claim, errors), timing, "cpu")
            batches = None if batches is None else batches - 1

    @staticmethod
    def keys(shard: ShardRecord) -> Iterator[tuple[int, str]]:
        return ((row_id, f"k{row_id}") for row_id in shard_rows(shard))


def shard_rows(shard: ShardRecord) -> range:
    return range(shard.row_from, shard.row_to)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'pipeline.db'}"


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest) -> str:
    """Of a database with nothing in its tables; a test of one kind overrides it."""
    url: str = request.getfixturevalue(f"ready_{request.param}_url")
    return url


@pytest.fixture
def open_engine(database_url: str) -> Iterator[Callable[[float], Engine]]:
    engines: list[Engine] = []

    def open_one(busy_timeout_s: float) -> Engine:
        engines.append(open_database(Settings(database_url=database_url), busy_timeout_s))
        return engines[-1]

    yield open_one
    for engine in engines:
        engine.dispose()


@pytest.fixture
def engine(open_engine: Callable[[float], Engine]) -> Engine:
    return open_engine(30.0)


@pytest.fixture
def ledger(engine: Engine, clock: Clock) -> Ledger:
    return Ledger(engine, clock)


@pytest.fixture
def dispatch(engine: Engine, road: Road, clock: Clock) -> Dispatch:
    return Dispatch(engine, road.keys, clock)


@pytest.fixture
def road(ledger: Ledger) -> Road:
    return Road(ledger)


@pytest.fixture
def exported_job(ledger, road, tmp_path):
    """Makes a job over the table, in shards of four rows; row 1 fails, and the last row has no result yet."""

    def make(table: pa.Table, spec_json: str = "{}", answered: int | None = None):
        job = ledger.create_job(None, spec_json, "", "", "")
        for shard_no, row_from in enumerate(range(0, table.num_rows, 4)):
            part = table.slice(row_from, 4)
            path = tmp_path / f"{shard_no:05}.parquet"
            pq.write_table(part, path)
            ledger.add_shard(job.id, shard_no, str(path), row_from, row_from + part.num_rows)
        ledger.finish_cutting(job.id, table.num_rows)
        road.encode(job, failed=[1], batch_rows=1)
        road.answer(job, batches=table.num_rows - 2 if answered is None else answered)
        return job

    return make


@pytest.fixture
def reviews(exported_job):
    return exported_job(pa.table({"id": [f"r{n}" for n in range(6)], "text": TEXT, "stars": [5, None, 1, 2, 3, 4]}))
