import json
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from pipeline.cutting import cut_job
from pipeline.inference.checkpoint import resolve_checkpoint
from pipeline.ingest.inputs import resolve
from pipeline.journey import Journey
from pipeline.means import Means, load_means
from pipeline.settings import Settings
from pipeline.spec import build_spec
from pipeline.store.database import open_database
from pipeline.store.integrity import check_integrity
from pipeline.store.ledger import Ledger
from pipeline.store.queries import find_job, list_shards, progress, stream_results
from pipeline.store.records import BatchState, JobRecord

TEXTS = ["a", "bb", None, "dddd", "x" * 600, "", "g" * 7, "hh", "i", "jjj"]


@dataclass
class Trip:
    """A job of ten rows, in shards of four and batches of two, of which the third and the fifth cannot be answered."""

    home: Settings
    means: Means
    name: str

    def __post_init__(self):
        self.database = open_database(self.home)
        self.ledger = Ledger(self.database)
        rows = self.home.home / "rows.jsonl"
        rows.write_text("".join(json.dumps({"id": f"r{at}", "text": text}) + "\n" for at, text in enumerate(TEXTS)))
        fields = {"inputs": str(rows), "model": "m", "prompt": "Say: {text}", "raw": True, "key": "id", "max_tokens": 5}
        self.spec = build_spec(fields)
        self.job = self.ledger.create_job(self.name, self.spec.model_dump_json(), "print", "model", "input")

    def cut(self, cut_rows: int = 0) -> JobRecord:
        directory = self.home.shard_directory(self.job.id)
        cut_job(self.ledger, self.job, self.spec, resolve(self.spec.inputs), directory, self.home.shard_rows, cut_rows)
        return find_job(self.database, self.name)

    def journey(self) -> Journey:
        shards = list_shards(self.database, self.job.id)
        return Journey(self.job, self.spec, self.means, self.ledger, shards, self.home)

    def claim(self):
        return self.ledger.claim(self.job.id, "me", 60.0)

    def answer_all(self, journey: Journey) -> None:
        while claim := self.claim():
            assert journey.answer(claim)

    def answers(self) -> list[tuple[object, ...]]:
        results = stream_results(self.database, self.job.id)
        return [(result.key, result.status, result.output, result.error_type) for result in results]


@pytest.fixture
def start(tmp_path, tiny_model, means):
    home = Settings.from_environment(
        {"PIPELINE_HOME": str(tmp_path), "PIPELINE_SHARD_ROWS": "4", "PIPELINE_BATCH_ROWS": "2"}
    )
    trips = []

    def one(name="night"):
        trips.append(Trip(home, means, name))
        return trips[-1]

    yield one
    for trip in trips:
        trip.database.dispose()


@pytest.fixture(scope="module")
def means(tiny_model, tmp_path_factory):
    spec = build_spec({"inputs": "-", "model": str(tiny_model), "prompt": "Say: {text}", "raw": True})
    return load_means(spec, resolve_checkpoint(spec.model), Settings(home=tmp_path_factory.mktemp("home")))


def test_a_job_is_cut_into_shards_that_the_ledger_knows(start):
    trip = start()
    job = trip.cut()
    assert (job.state, job.n_rows) == ("running", 10)
    shards = list_shards(trip.database, job.id)
    assert [(shard.row_from, shard.row_to) for shard in shards] == [(0, 4), (4, 8), (8, 10)]
    assert all(Path(shard.path).is_file() for shard in shards)


def test_a_cut_goes_on_behind_what_the_ledger_has(start):
    trip = start()
    directory = trip.home.shard_directory(trip.job.id)
    trip.ledger.add_shard(trip.job.id, 0, f"{directory}/00000.parquet", 0, 4)
    assert trip.cut(cut_rows=4).n_rows == 10
    assert sorted(path.name for path in Path(directory).iterdir()) == ["00001.parquet", "00002.parquet"]


def test_rows_become_batches_and_batches_answers(start):
    trip = start()
    trip.cut()
    journey = trip.journey()
    assert [journey.encode_next() for _ in range(4)] == [True, True, True, False]
    told = progress(trip.database, trip.job.id)
    assert (told.error, told.batches[BatchState.PENDING]) == (2, 5)
    trip.answer_all(journey)
    assert trip.ledger.complete(trip.job.id)
    assert check_integrity(trip.database, trip.job.id) == []
    found = trip.answers()
    assert [key for key, *_ in found] == [f"r{at}" for at in range(10)]
    assert [kind for *_, kind in found] == [None, None, "null", None, "too_long", None, None, None, None, None]
    assert len({output for _, _, output, _ in found}) > 5
    stages = progress(trip.database, trip.job.id).seconds
    assert all(stages[stage] > 0 for stage in ("encode", "prefill", "decode", "record"))


def test_answers_are_the_same_when_all_tokens_were_lost(start):
    calm, wild = start("calm"), start("wild")
    for trip in (calm, wild):
        trip.cut()
        journey = trip.journey()
        while journey.encode_next():
            pass
        trip.answer_all(trip.journey() if trip is wild else journey)
    assert wild.answers() == calm.answers()
    assert check_integrity(wild.database, wild.job.id) == []


def test_a_row_that_cannot_be_answered_is_an_error_again_when_it_is_retried(start):
    trip = start()
    trip.cut()
    journey = trip.journey()
    while journey.encode_next():
        pass
    trip.answer_all(journey)
    before = trip.answers()
    assert trip.ledger.retry_errors(trip.job.id, 2) == 2
    trip.answer_all(trip.journey())
    assert trip.answers() == before
    assert check_integrity(trip.database, trip.job.id) == []


def test_what_comes_too_late_is_not_recorded(start):
    trip = start()
    trip.cut()
    journey = trip.journey()
    journey.encode_next()
    claim = trip.claim()
    trip.ledger.give_back(claim)
    assert journey.answer(claim) is False
    assert [key for key, *_ in trip.answers()] == ["r2"]
    assert journey.answer(trip.claim()) is True


def test_a_batch_that_may_not_be_begun_is_not_answered(start, monkeypatch):
    trip = start()
    trip.cut()
    journey = trip.journey()
    journey.encode_next()
    claim = trip.claim()
    monkeypatch.setattr(trip.ledger, "begin", lambda _: False)
    monkeypatch.setattr(trip.ledger, "finish", None)
    assert journey.answer(claim) is False


def test_the_context_that_the_job_was_made_with_counts(start):
    trip = start()
    trip.job = replace(trip.job, context=8)
    trip.cut()
    trip.journey().encode_next()
    assert [(key, kind) for key, *_, kind in trip.answers()] == [("r2", "null"), ("r3", "too_long")]


def test_a_cancelled_job_is_not_encoded(start):
    trip = start()
    trip.cut()
    journey = trip.journey()
    trip.ledger.cancel(trip.job.id, lambda shard: [(at, f"r{at}") for at in range(shard.row_from, shard.row_to)])
    assert journey.encode_next() is False
    assert {status for _, status, _, _ in trip.answers()} == {"cancelled"}
