"""A process of the tokenizer pool on real shards, and what it leaves for the GPU workers."""

import json
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline.costs import usual_costs
from pipeline.cutting import cut_job
from pipeline.encoding import Encoding
from pipeline.errors import TryAgain
from pipeline.ingest.inputs import resolve
from pipeline.ingest.token_files import TokenFiles
from pipeline.messages import unpack
from pipeline.prompts.vocabulary import Vocabulary
from pipeline.rows import BatchTiming, Completion, Status
from pipeline.settings import Settings
from pipeline.spec import build_spec
from pipeline.store.database import Database, open_database
from pipeline.store.dispatch import Dispatch
from pipeline.store.integrity import check_integrity
from pipeline.store.ledger import Ledger
from pipeline.store.lookup import find_shard, read_job
from pipeline.store.queries import progress, stream_results
from pipeline.store.records import BatchState, Role, ShardState
from pipeline.store.registry import Registry
from workers.prices import expected_costs
from workers.tokenizer import TokenizerDesk

TEXTS = ["one", "two", None, "four", "five " * 200, "six <|im_end|>", "seven", "eight", "nine", "ten"]


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    variables = {"PIPELINE_HOME": str(tmp_path), "PIPELINE_SHARD_ROWS": "4", "PIPELINE_BATCH_ROWS": "2"}
    return Settings.from_environment(variables)


@pytest.fixture
def database(settings) -> Iterator[Database]:
    database = open_database(settings)
    yield database
    database.dispose()


@pytest.fixture
def job(settings, database, tiny_model, tmp_path) -> str:
    """Its id; ten rows in three shards, of which row 2 is null and row 4 too long."""
    pq.write_table(pa.table({"text": TEXTS}), tmp_path / "rows.parquet")
    spec = build_spec({"inputs": str(tmp_path / "rows.parquet"), "model": "m", "prompt": "Say: {text}", "raw": True})
    ledger = Ledger(database)
    made = ledger.create_job("night", spec.model_dump_json(), "print", "model", "input", fleet=True)
    ledger.set_tokenizer(made.id, str(tiny_model), 512)
    cut_job(ledger, made, spec, resolve(spec.inputs), settings.shard_directory(made.id), 4, 0)
    return made.id


@pytest.fixture
def desk(settings, database) -> TokenizerDesk:
    return TokenizerDesk(database, settings, "host/tokenizer.1")


def test_a_shard_becomes_batches_whose_prompts_are_laid_by(desk, database, settings, job, tiny_model):
    for shard_no in range(3):
        desk.encode(job, shard_no)
    told = progress(database, job)
    assert (told.batches[BatchState.PENDING], told.error) == (5, 2)
    assert (told.cut, told.neutralised) == (0, 1)
    bells = Dispatch(database, lambda shard: []).enqueue_batches(100)
    payloads = [unpack(TokenFiles().message(bell.tokens, bell.part)) for bell in bells]
    vocabulary = Vocabulary(tiny_model)
    read = {
        prompt.row_id: vocabulary.show((*payload.prefix, *prompt.own_ids))
        for payload in payloads
        for prompt in payload.prompts
    }
    assert read == {row: f"Say: {text}" for row, text in enumerate(TEXTS) if row not in (2, 4)}


def test_rows_that_were_answered_before_are_copied_and_the_others_laid_by(desk, database, settings, job, tiny_model):
    ledger, asked = Ledger(database), read_job(database, job)
    spec = build_spec(json.loads(asked.spec_json) | {"reuse_results": True})
    known = Encoding(
        asked, spec, Vocabulary(tiny_model), 512, usual_costs("cuda"), settings, find_shard(database, job, 0)
    )
    desk.encode(job, 0)
    while claim := next(filter(None, (ledger.claim_batch(job, number, "gpu", 60.0) for number in range(9))), None):
        prompts, _ = known.rows(find_shard(database, job, 0), claim.row_ids)
        rows = [
            Completion(p.row_id, p.key, Status.OK, "yes", prompt_hash=known.identity.behind(known.prefix)(p))
            for p in prompts
        ]
        assert ledger.finish(claim, rows, BatchTiming(), "cpu")
    made = ledger.create_job("again", spec.model_dump_json(), "print", "model", "input", fleet=True)
    ledger.set_tokenizer(made.id, str(tiny_model), 512)
    cut_job(ledger, made, spec, resolve(spec.inputs), settings.shard_directory(made.id), 10, 0)
    desk.encode(made.id, 0)
    told = progress(database, made.id)
    assert (told.ok, told.copied, told.error) == (3, 3, 2)
    waiting = [
        prompt.row_id
        for bell in Dispatch(database, lambda shard: []).enqueue_batches(100)
        if bell.job_id == made.id
        for prompt in unpack(TokenFiles().message(bell.tokens, bell.part)).prompts
    ]
    assert sorted(waiting) == [5, 6, 7, 8, 9]


def test_rows_of_two_shards_that_are_alike_are_laid_by_once(desk, database, settings, job, tmp_path):
    ledger, spec = Ledger(database), build_spec(json.loads(read_job(database, job).spec_json) | {"keep_order": True})
    pq.write_table(
        pa.table({"text": ["one", "two", "one", None, "six", "two", "two", "one"]}), tmp_path / "rows.parquet"
    )
    made = ledger.create_job("alike", spec.model_dump_json(), "print", "model", "input", fleet=True)
    ledger.set_tokenizer(made.id, read_job(database, job).tokenizer, 512)
    cut_job(ledger, made, spec, resolve(spec.inputs), settings.shard_directory(made.id), 4, 0)
    desk.encode(made.id, 1)
    desk.encode(made.id, 0)
    rows = {}
    while claim := next(filter(None, (ledger.claim_batch(made.id, number, "gpu", 60.0) for number in range(9))), None):
        rows |= dict.fromkeys(claim.row_ids, claim.shard_no)
        done = [Completion(row_id, f"k{row_id}", Status.OK, f"answer {row_id}") for row_id in claim.row_ids]
        assert ledger.finish(claim, done, BatchTiming(), "cpu")
    assert rows == {4: 1, 5: 1, 6: 1, 7: 1}
    assert Dispatch(database, lambda shard: []).complete_jobs() == [made.id]
    found = {row.row_id: row.output for row in stream_results(database, made.id)}
    assert [found[row_id] for row_id in (0, 1, 2)] == ["answer 7", "answer 5", "answer 7"]
    assert check_integrity(database, made.id) == []


def test_a_message_that_comes_twice_or_late_changes_nothing(desk, database, job):
    desk.encode(job, 0)
    desk.encode(job, 0)
    desk.encode("no such job", 0)
    desk.encode(job, 99)
    assert progress(database, job).batches[BatchState.PENDING] == 2


def test_a_shard_that_another_holds_is_left_to_it(desk, database, job):
    assert Ledger(database).claim_shard(job, 0, "other", 60.0) is not None
    desk.encode(job, 0)
    assert find_shard(database, job, 0).state is ShardState.LEASED


def test_a_shard_that_is_gone_pauses_the_job_with_the_reason_and_is_free_for_when_it_is_back(desk, database, job):
    place = Path(find_shard(database, job, 1).path)
    place.rename(place.with_suffix(".away"))
    desk.encode(job, 1)
    paused = read_job(database, job)
    assert paused.paused_at is not None
    assert paused.error.startswith(f"On host: {place}, which `pipeline submit` wrote, does not exist on this machine.")
    assert find_shard(database, job, 1).state is ShardState.PENDING
    place.with_suffix(".away").rename(place)
    Ledger(database).unpause(job)
    desk.encode(job, 1)
    assert find_shard(database, job, 1).state is ShardState.ENCODED


def test_where_nothing_of_the_job_is_seen_the_directory_that_all_machines_see_is_named(desk, database, job, tmp_path):
    Ledger(database).set_tokenizer(job, str(tmp_path / "nowhere"), 512)
    desk.encode(job, 0)
    told = read_job(database, job).error
    assert told.startswith(f"On host: {tmp_path}/nowhere, which `pipeline submit` wrote, does not exist")
    assert "PIPELINE_SHARDS must name a directory or bucket that all machines of the fleet see" in told


def test_what_the_moment_refuses_is_tried_again_after_a_rest_and_pauses_nothing(database, settings, job, monkeypatch):
    full = iter([True] * 6 + [False, True])

    def write(place, messages):
        if next(full):
            raise TryAgain("The disk is full.")

    monkeypatch.setattr("workers.tokenizer.token_files.write", write)
    told, rests = [], []
    desk = TokenizerDesk(database, settings, "host/tokenizer.1", lambda encoded: None, told.append, rests.append)
    for _ in range(6):
        desk.encode(job, 0)
        assert find_shard(database, job, 0).state is ShardState.PENDING
    desk.encode(job, 0)
    assert find_shard(database, job, 0).state is ShardState.ENCODED
    desk.encode(job, 1)
    assert read_job(database, job).paused_at is None
    assert told == ["The disk is full."] * 7
    assert rests == [1, 2, 4, 8, 10, 10, 1]


def test_a_job_that_was_not_made_for_a_fleet_is_paused_and_told_so(desk, database, settings, job):
    ledger = Ledger(database)
    local = ledger.create_job("local", read_job(database, job).spec_json, "print", "model", "input")
    ledger.add_shard(local.id, 0, find_shard(database, job, 0).path, 0, 4)
    desk.encode(local.id, 0)
    assert "pipeline resume local" in read_job(database, local.id).error


def test_what_sharing_costs_is_estimated_for_the_devices_that_are_there(database):
    registry, spec = Registry(database), build_spec({"inputs": "a", "model": "m", "prompt": "p"})

    def enter(device: str) -> None:
        registry.beat(registry.enter(Role.GPU, "host", 1, "auto"), facts=json.dumps({"device_type": device}))

    assert expected_costs(spec, registry) == usual_costs("cuda")
    enter("cpu")
    assert expected_costs(spec, registry) == usual_costs("cpu")
    enter("cuda")
    assert expected_costs(spec, registry) == usual_costs("cuda")
