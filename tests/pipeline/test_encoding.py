import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline.buckets import Budget
from pipeline.costs import usual_costs
from pipeline.encoding import Encoding
from pipeline.ingest.token_files import TokenFiles
from pipeline.messages import Payload, unpack
from pipeline.prompts.vocabulary import Vocabulary
from pipeline.rows import Choose, Prompt, Twin
from pipeline.settings import Settings
from pipeline.spec import build_spec
from pipeline.store.records import JobRecord, JobState, ShardRecord, ShardState

FIELDS = {"inputs": "a.csv", "model": "m", "prompt": "Read this: {text}", "raw": True, "key": "id", "max_tokens": 5}
DOCUMENT = "A document that several rows ask about. "
TEXTS = ["a", None, "x" * 600, "say <|im_end|>", *(DOCUMENT + word for word in ("who", "when", "where")), "bb"]


@pytest.fixture
def shards(tmp_path: Path) -> list[ShardRecord]:
    """Rows 0 to 8 and 8 to 16, of the same texts."""
    found = []
    for shard_no in (0, 1):
        path = tmp_path / f"{shard_no}.parquet"
        pq.write_table(pa.table({"id": [f"k{8 * shard_no + at}" for at in range(8)], "text": TEXTS}), path)
        rows = 8 * shard_no, 8 * shard_no + 8
        found.append(ShardRecord("job", shard_no, str(path), *rows, ShardState.LEASED))
    return found


@pytest.fixture
def encoding(tiny_model: Path, shards: list[ShardRecord]) -> Callable[..., Encoding]:
    """Another one at each call, as another worker would make it."""

    def make(context: int = 512, **fields: object) -> Encoding:
        spec = build_spec(FIELDS | fields)
        job = JobRecord("job", "job", "", "", "", "", JobState.RUNNING, 16, 1e9, None, None)
        costs, settings = usual_costs("cpu"), Settings(batch_rows=4)
        return Encoding(job, spec, Vocabulary(tiny_model), context, costs, settings, shards[0])

    return make


def prompts_of(encoded: list[tuple[Prompt, ...]]) -> dict[int, Prompt]:
    return {prompt.row_id: prompt for prompts in encoded for prompt in prompts}


def test_every_row_of_a_shard_becomes_a_prompt_or_a_failure(encoding: Callable[..., Encoding], shards) -> None:
    encoded = encoding().shard(shards[1])
    assert [tuple(p.row_id for p in prompts) for prompts in encoded.prompts] == [b.row_ids for b in encoded.planned]
    assert sorted(prompts_of(encoded.prompts)) == [8, 11, 12, 13, 14, 15]
    assert [(f.row_id, f.key, f.error_type) for f in encoded.failures] == [(9, "k9", "null"), (10, "k10", "too_long")]
    assert encoded.seconds > 0


def test_rows_that_share_a_document_come_together_with_the_cut_marked(encoding, shards) -> None:
    encoded = encoding().shard(shards[0])
    assert set(encoded.planned[0].row_ids) == {4, 5, 6}
    assert {prompt.cuts for prompt in encoded.prompts[0]} == {encoded.prompts[0][0].cuts} != {()}


def test_another_worker_has_the_same_prefix_and_the_same_prompts(encoding, shards) -> None:
    one, other = encoding(), encoding()
    assert one.prefix == other.prefix != ()
    assert one.shard(shards[1]).prompts == other.shard(shards[1]).prompts
    assert one.columns == ("text",)


def test_lost_prompts_are_made_again(encoding, shards) -> None:
    encoded = encoding().shard(shards[1])
    row_ids = (15, 9, 12)
    prompts, failures = encoding().rows(shards[1], row_ids)
    own_ids = {prompt.row_id: prompt.own_ids for prompt in prompts}
    assert own_ids == {row_id: prompts_of(encoded.prompts)[row_id].own_ids for row_id in (12, 15)}
    assert [failure.row_id for failure in failures] == [9]


def test_rows_of_one_prompt_are_one_prompt_in_a_batch_that_has_them_all(encoding, tmp_path) -> None:
    path = tmp_path / "same.parquet"
    texts = [DOCUMENT + "who", "b", DOCUMENT + "why", "b", "b", DOCUMENT + "who", None]
    pq.write_table(pa.table({"id": list("abcdefg"), "text": texts}), path)
    same = ShardRecord("job", 0, str(path), 0, 7, ShardState.LEASED)
    encoded = encoding().shard(same)
    rows = {prompt.row_id: prompt.row_ids for prompts in encoded.prompts for prompt in prompts}
    assert rows == {0: (0, 5), 1: (1, 3, 4), 2: (2,)}
    assert prompts_of(encoded.prompts)[0].twins == (Twin(5, "f"),)
    for batch, prompts in zip(encoded.planned, encoded.prompts, strict=True):
        assert batch.row_ids == tuple(row_id for prompt in prompts for row_id in prompt.row_ids)
        assert batch.prompt_rows == tuple(len(prompt.row_ids) for prompt in prompts)
    again, failures = encoding().rows(same, [4, 6, 3])
    assert [prompt.row_ids for prompt in again] == [(3, 4)]
    assert [failure.row_id for failure in failures] == [6]
    for drawing in ({"dedupe": False}, {"temperature": 1.0}):
        apart = encoding(**drawing).shard(same)
        assert len(prompts_of(apart.prompts)) == 6
        assert {batch.prompt_rows for batch in apart.planned} == {()}


def test_a_text_is_cut_alike_by_every_worker_and_counted(encoding, shards) -> None:
    encoded = encoding(on_too_long="middle").shard(shards[1])
    cut = prompts_of(encoded.prompts)[10]
    assert [failure.row_id for failure in encoded.failures] == [9]
    assert (encoded.n_cut, encoded.n_neutralised) == (1, 1)
    assert cut.cut_tokens > 600 - 512
    assert encoding(on_too_long="middle").rows(shards[1], [10])[0] == (cut,)


def test_texts_are_cleaned_as_asked(encoding, shards, tmp_path) -> None:
    path = tmp_path / "dirty.parquet"
    pq.write_table(pa.table({"id": ["a", "b"], "text": ["e\u0301&amp;\u200b", "é&"]}), path)
    dirty = ShardRecord("job", 0, str(path), 0, 2, ShardState.LEASED)
    own = [len(prompt.own_ids) for prompt in encoding().rows(dirty, [0, 1])[0]]
    asked = {"normalize": "nfc", "strip_invisible": True, "unescape_html": True}
    clean, short = encoding(**asked, dedupe=False).rows(dirty, [0, 1])[0]
    assert own[0] > own[1]
    assert clean.own_ids == short.own_ids


def test_batches_are_within_the_budget(encoding, shards) -> None:
    assert max(len(batch.row_ids) for batch in encoding().shard(shards[0]).planned) == 3
    assert {len(batch.row_ids) for batch in encoding().shard(shards[0], Budget(1, 10_000)).planned} == {1}
    assert len(encoding().shard(shards[0], Budget(100, 1)).planned) == 6


def test_of_several_samples_fewer_rows_make_a_batch(encoding, shards) -> None:
    encoded = encoding(n=4, temperature=1.0).shard(shards[0])
    assert {len(batch.row_ids) for batch in encoded.planned} == {1}


def test_what_the_context_does_not_hold_is_an_error(encoding, shards) -> None:
    failures = encoding(context=20).shard(shards[0]).failures
    assert {failure.row_id for failure in failures} == {1, 2, 3, 4, 5, 6}
    assert "the model's context is 20" in failures[-1].error


def test_a_text_to_be_scored_counts_in_its_batch_and_in_the_context(encoding, shards) -> None:
    scoring = encoding(prompt="Read {id}:", score="text", max_tokens=256)
    encoded = scoring.shard(shards[0], Budget(100, 80))
    assert [(failure.row_id, failure.error_type) for failure in encoded.failures] == [(1, "null"), (2, "too_long")]
    targets = {row_id: prompt.target for row_id, prompt in prompts_of(encoded.prompts).items()}
    assert {row_id: len(ids) for row_id, ids in targets.items()} == {0: 2, 3: 15, 4: 44, 5: 45, 6: 46, 7: 3}
    for batch, prompts in zip(encoded.planned, encoded.prompts, strict=True):
        assert sum(len(prompt.target) for prompt in prompts) < batch.n_tokens <= 80
    assert scoring.rows(shards[0], [5])[0][0].target == targets[5]


def test_a_mean_shares_nothing_and_a_last_token_shares_what_comes_before_it(encoding, shards) -> None:
    last, mean = (encoding(embed=pooling, max_tokens=256) for pooling in ("last", "mean"))
    assert (bool(last.prefix), mean.prefix) == (True, ())
    by_row, whole = (prompts_of(each.shard(shards[0]).prompts) for each in (last, mean))
    assert {row_id: last.prefix + prompt.own_ids for row_id, prompt in by_row.items()} == {
        row_id: prompt.own_ids for row_id, prompt in whole.items()
    }
    assert {prompt.cuts for prompt in whole.values()} == {()}


def test_labels_are_a_task_without_a_model(encoding) -> None:
    task = encoding(choices=["yes", "no"], max_tokens=256).task
    assert isinstance(task, Choose)
    assert [len(ids) for ids in task.label_ids] == [4, 3]


def test_a_shard_is_encoded_and_laid_by_where_there_is_no_torch(encoding, shards, tiny_model, tmp_path) -> None:
    program = f"""
import sys
for name in ("torch", "transformers"):
    sys.modules[name] = None
from pipeline.costs import usual_costs
from pipeline.encoding import Encoding
from pipeline.ingest.token_files import write
from pipeline.messages import pack
from pipeline.prompts.vocabulary import Vocabulary
from pipeline.settings import Settings
from pipeline.spec import build_spec
from pipeline.store.records import JobRecord, JobState, ShardRecord, ShardState
from pathlib import Path
spec = build_spec({FIELDS!r})
job = JobRecord("job", "job", "", "", "", "", JobState.RUNNING, 16, 1e9, None, None)
shards = [ShardRecord("job", n, path, 8 * n, 8 * n + 8, ShardState.LEASED) for n, path in enumerate(sys.argv[1:3])]
vocabulary = Vocabulary(Path({str(tiny_model)!r}))
encoding = Encoding(job, spec, vocabulary, 512, usual_costs("cpu"), Settings(batch_rows=4), shards[0])
encoded = encoding.shard(shards[1])
write(sys.argv[3], [pack(encoding.prefix, prompts) for prompts in encoded.prompts])
"""
    place = str(tmp_path / "1.tokens")
    paths = [shard.path for shard in shards]
    done = subprocess.run([sys.executable, "-c", program, *paths, place], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    files, here = TokenFiles(), encoding()
    expected = [Payload(here.prefix, prompts) for prompts in here.shard(shards[1]).prompts]
    assert [unpack(files.message(place, part) or b"") for part in range(len(expected))] == expected
