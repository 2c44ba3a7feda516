"""A ledger on a real database with a job of six rows in it, and a journey that needs no model."""

import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

import pytest

from pipeline.buckets import PlannedBatch
from pipeline.rows import BatchTiming, Completion, Status
from pipeline.settings import Settings
from pipeline.store.database import Database, open_database
from pipeline.store.ledger import Ledger
from pipeline.store.records import Claim, JobRecord, ShardRecord
from tests.workers.nights import Nights
from workers.process import Members


@dataclass
class Desk:
    """Shards of three rows; a row is a batch."""

    home: Path
    database: Database

    def __post_init__(self) -> None:
        self.ledger, self.members = Ledger(self.database), Members(self.home)
        self.job = self._job()

    def _job(self) -> JobRecord:
        job = self.ledger.create_job("night", "{}", "print", "model", "input")
        for shard_no in (0, 1):
            self.ledger.add_shard(
                job.id, shard_no, str(self.home / f"{shard_no}.parquet"), 3 * shard_no, 3 * shard_no + 3
            )
        self.ledger.finish_cutting(job.id, 6)
        return job

    def encode_all(self, tokens: Mapping[int, str] = MappingProxyType({})) -> None:
        """`tokens`: where the prompts of a shard are laid by."""
        for shard_no in (0, 1):
            planned = [PlannedBatch((row_id,), 1) for row_id in range(3 * shard_no, 3 * shard_no + 3)]
            self.ledger.record_encoding(self.job.id, shard_no, planned, [], 0.0, tokens.get(shard_no))

    def cancel(self) -> None:
        self.ledger.cancel(self.job.id, self.keys_of)

    @staticmethod
    def keys_of(shard: ShardRecord) -> list[tuple[int, str]]:
        return [(row_id, f"k{row_id}") for row_id in range(shard.row_from, shard.row_to)]


@dataclass
class Walk:
    """A Journey as the runner sees it; `on_answer` is called with each claim before it is answered."""

    desk: Desk
    on_answer: Callable[[Claim], None] = lambda claim: None
    answered: list[int] = field(default_factory=list)

    def encode_next(self) -> bool:
        ledger, job_id = self.desk.ledger, self.desk.job.id
        shard = ledger.next_unencoded_shard(job_id)
        if shard is None:
            return False
        planned = [PlannedBatch((row_id,), 1) for row_id in range(shard.row_from, shard.row_to)]
        ledger.record_encoding(job_id, shard.shard_no, planned, [], 0.0)
        return True

    def answer(self, claim: Claim) -> bool:
        self.on_answer(claim)
        self.answered.append(claim.batch_no)
        completions = [Completion(row_id, f"k{row_id}", Status.OK, "yes") for row_id in claim.row_ids]
        return self.desk.ledger.finish(claim, completions, BatchTiming(), "cpu")


@pytest.fixture
def desk(tmp_path: Path, ready_sqlite: Path) -> Iterator[Desk]:
    shutil.copy(ready_sqlite, tmp_path)
    database = open_database(Settings.from_environment({"PIPELINE_HOME": str(tmp_path)}), 5.0)
    yield Desk(tmp_path, database)
    database.dispose()


@pytest.fixture
def walk(desk: Desk) -> Callable[..., Walk]:
    return lambda on_answer=lambda claim: None: Walk(desk, on_answer)


@pytest.fixture
def kind() -> str:
    return "sqlite"


@pytest.fixture
def open_nights(request: pytest.FixtureRequest, kind: str) -> Iterator[Callable[[], Nights]]:
    url = request.getfixturevalue(f"ready_{kind}_url")
    opened: list[Database] = []

    def open_one() -> Nights:
        opened.append(open_database(Settings(database_url=url)))
        return Nights(opened[-1])

    yield open_one
    for database in opened:
        database.dispose()


@pytest.fixture
def nights(open_nights: Callable[[], Nights]) -> Nights:
    nights = open_nights()
    nights.at("2027-06-01T12:00")
    return nights
