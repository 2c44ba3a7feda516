"""A job of several questions through a fleet's processes, but for the broker: encoded by one, answered by another."""

from contextlib import nullcontext

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline.cutting import cut_job
from pipeline.errors import RefusedError
from pipeline.inference.checkpoint import resolve_checkpoint
from pipeline.ingest.inputs import resolve
from pipeline.ingest.token_files import TokenFiles
from pipeline.messages import unpack
from pipeline.rows import Status
from pipeline.settings import Settings
from pipeline.spec import build_spec
from pipeline.store.database import open_database
from pipeline.store.dispatch import Dispatch
from pipeline.store.integrity import check_integrity
from pipeline.store.ledger import Ledger
from pipeline.store.lookup import find_shard
from pipeline.store.queries import find_job, progress, read_results
from tests.earlier import told_apart_as_before
from workers.keys import keys_of
from workers.loaded import Loaded
from workers.tokenizer import TokenizerDesk

TEXTS = ["a" * 300, "b" * 200, None, "c" * 150, "d" * 90]
QUESTIONS = {
    "mood": {"prompt": "Good or bad?", "choices": ["good", "bad"]},
    "gist": {"prompt": "In short:", "max_tokens": 3},
    "fit": {"prompt": "Title:", "score": "title"},
}


@pytest.fixture
def settings(tmp_path):
    return Settings.from_environment({"PIPELINE_HOME": str(tmp_path), "PIPELINE_BATCH_ROWS": "5"})


@pytest.fixture
def database(settings):
    database = open_database(settings)
    yield database
    database.dispose()


@pytest.fixture
def job(settings, database, tiny_model, tmp_path):
    """Five rows in shards of three."""
    pq.write_table(pa.table({"text": TEXTS, "title": list("vwxyz")}), tmp_path / "rows.parquet")
    fields = {"inputs": str(tmp_path / "rows.parquet"), "model": str(tiny_model), "prompt": "Review: {text}\n"}
    spec = build_spec(fields | {"raw": True, "questions": QUESTIONS})
    ledger, digest = Ledger(database), resolve_checkpoint(str(tiny_model)).digest
    made = ledger.create_job("night", spec.model_dump_json(), "", digest, "", fleet=True, questions=list(QUESTIONS))
    ledger.set_tokenizer(made.id, str(tiny_model), 512)
    cut_job(ledger, made, spec, resolve(spec.inputs), settings.shard_directory(made.id), 3, 0)
    return find_job(database, "night")


def test_a_fleet_answers_each_question_of_each_row(settings, database, job):
    ledger, tokenizer = Ledger(database), TokenizerDesk(database, settings, "host/tokenizer.1")
    assert (job.n_rows, job.n_questions) == (15, 3)
    for shard_no in (0, 1):
        tokenizer.encode(job.id, shard_no)
    answering = Loaded(database, settings, lambda job_id, model: nullcontext()).answering(job.id)
    for bell in Dispatch(database, lambda shard: keys_of(database, shard)).enqueue_batches(100):
        claim = ledger.claim_batch(job.id, bell.batch_no, "gpu", 60.0)
        payload = unpack(TokenFiles().message(bell.tokens, bell.part))
        rows = [row_id // 3 for row_id in claim.row_ids]
        assert {rows.count(row) for row in rows} == {3}
        assert ledger.begin(claim)
        assert ledger.finish(claim, *answering.run(claim, payload).written(), "cpu")
    assert ledger.complete(job.id)
    assert check_integrity(database, job.id) == []
    told = progress(database, job.id)
    assert (told.ok + told.truncated, told.error) == (12, 3)
    assert told.computed_tokens == told.planned_tokens
    answers = read_results(database, job.id, range(15))
    assert [found.status for found in answers[6:9]] == [Status.ERROR] * 3
    for mood, gist, fit in (answers[row * 3 : row * 3 + 3] for row in (0, 1, 3, 4)):
        assert (mood.label in ("good", "bad"), gist.output_tokens > 0, fit.logprob < 0) == (True, True, True)


def test_the_rows_of_a_shard_that_is_cancelled_are_all_of_its_questions(database, job):
    keys = list(keys_of(database, find_shard(database, job.id, 1)))
    assert keys == [(9, "3"), (10, "3"), (11, "3"), (12, "4"), (13, "4"), (14, "4")]
    assert Ledger(database).cancel(job.id, lambda shard: keys_of(database, shard)) == 15
    assert check_integrity(database, job.id) == []


def test_a_worker_answers_with_the_files_of_the_job_as_the_job_knows_them(settings, database, job, tiny_model):
    loaded = Loaded(database, settings, lambda job_id, model: nullcontext())
    told_apart_as_before(settings.home, tiny_model)
    assert loaded.answering(job.id)
    told_apart_as_before(settings.home, settings.home / "empty")
    with pytest.raises(RefusedError, match="on this machine is not the one that night was submitted with"):
        Loaded(database, settings, lambda job_id, model: nullcontext()).answering(job.id)
