from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline.answering import Answering, make_engine
from pipeline.encoding import Encoding
from pipeline.errors import InputError
from pipeline.inference.checkpoint import resolve_checkpoint
from pipeline.means import load_means
from pipeline.messages import Payload, pack, unpack
from pipeline.rows import Status
from pipeline.settings import Settings
from pipeline.spec import JobSpec, build_spec
from pipeline.store.records import Claim, JobRecord, JobState, ShardRecord, ShardState

TEXTS = ["a", None, "bb", "dddd", "x" * 600, "hh"]
JOB = JobRecord("job", "job", "", "", "", "", JobState.RUNNING, 6, 1e9, None, None)
CLAIM = Claim("job", 3, 0, tuple(range(6)), fence=2, attempts=1)


@pytest.fixture
def shard(tmp_path):
    path = tmp_path / "0.parquet"
    pq.write_table(pa.table({"text": TEXTS}), path)
    return ShardRecord("job", 0, str(path), 0, len(TEXTS), ShardState.ENCODED)


@pytest.fixture(scope="module")
def settings(tmp_path_factory):
    return Settings(home=tmp_path_factory.mktemp("home"))


@pytest.fixture(scope="module")
def spec(tiny_model):
    fields = {"inputs": "-", "model": str(tiny_model), "prompt": "Say: {text}", "raw": True, "max_tokens": 5}
    return build_spec(fields)


@pytest.fixture(scope="module")
def means(spec, settings):
    return load_means(spec, resolve_checkpoint(spec.model), settings)


@pytest.fixture
def encoding(spec, means, settings, shard):
    return Encoding(JOB, spec, means.vocabulary, means.model.context, means.costs, settings, shard)


@pytest.fixture
def answering(means, settings, encoding, shard):
    return Answering(make_engine(means, settings), encoding, {0: shard}.__getitem__)


def outcomes(answered):
    completions, _ = answered.written()
    found = [(c.row_id, c.status, c.output, c.error_type) for c in completions]
    return sorted(found, key=lambda outcome: outcome[0])


def test_a_batch_that_came_by_message_is_answered_like_one_whose_prompts_were_lost(answering, encoding, shard):
    prompts, _ = encoding.rows(shard, [0, 2, 3, 5])
    by_message = answering.run(CLAIM, unpack(pack(encoding.prefix, prompts)))
    again = answering.run(CLAIM, None)
    assert [outcome[0] for outcome in outcomes(by_message)] == [0, 2, 3, 5]
    assert [outcome for outcome in outcomes(again) if outcome[1] is not Status.ERROR] == outcomes(by_message)
    assert [(row_id, kind) for row_id, status, _, kind in outcomes(again) if status is Status.ERROR] == [
        (1, "null"),
        (4, "too_long"),
    ]


def test_rows_of_one_prompt_are_answered_together_by_message_and_of_lost_prompts(answering, encoding, tmp_path):
    path = tmp_path / "same.parquet"
    pq.write_table(pa.table({"text": ["a", "bb", "a"]}), path)
    shard = ShardRecord("job", 0, str(path), 0, 3, ShardState.ENCODED)
    claim = Claim("job", 3, 0, (0, 2, 1), fence=2, attempts=1)
    prompts, _ = encoding.rows(shard, claim.row_ids)
    by_message = answering.run(claim, unpack(pack(encoding.prefix, prompts)))
    again = Answering(answering.engine, encoding, {0: shard}.__getitem__).run(claim, None)
    assert [outcome[0] for outcome in outcomes(by_message)] == [0, 1, 2]
    assert outcomes(again) == outcomes(by_message)
    completions, timing = by_message.written()
    assert timing.computed_tokens + timing.reused_tokens >= sum(row.prompt_tokens for row in completions)


def test_what_was_cut_is_told_with_the_answer(means, spec, settings, shard):
    cutting = build_spec(spec.model_dump() | {"on_too_long": "tail"})
    encoding = Encoding(JOB, cutting, means.vocabulary, means.model.context, means.costs, settings, shard)
    answering = Answering(make_engine(means, settings), encoding, {0: shard}.__getitem__)
    claim = Claim("job", 3, 0, (0, 4), fence=2, attempts=1)
    prompts, _ = encoding.rows(shard, claim.row_ids)
    for payload in (unpack(pack(encoding.prefix, prompts)), None):
        completions, _ = answering.run(claim, payload).written()
        left_out = {completion.row_id: completion.cut_tokens for completion in completions}
        assert left_out == {0: 0, 4: 600 + len("Say: ") - (means.model.context - 5)}


def test_a_row_whose_answer_ends_amid_a_character_lacks_that_one_alone(means, spec, settings, tmp_path):
    path = tmp_path / "many.parquet"
    pq.write_table(pa.table({"text": [f"text {place}" for place in range(40)]}), path)
    shard = ShardRecord("job", 0, str(path), 0, 40, ShardState.ENCODED)
    telling = build_spec(spec.model_dump() | {"logprobs": 0})
    encoding = Encoding(JOB, telling, means.vocabulary, means.model.context, means.costs, settings, shard)
    answering = Answering(make_engine(means, settings), encoding, {0: shard}.__getitem__)
    completions, _ = answering.run(Claim("job", 3, 0, tuple(range(40)), fence=2, attempts=1), None).written()
    ends = {
        completion.output: [each.token_id for each in completion.logprobs]
        for completion in completions
        if completion.finish_reason == "length"
    }
    assert [means.vocabulary.write(token_ids) for token_ids in ends.values()] == list(ends)
    assert any(means.vocabulary.decode(token_ids) != output for output, token_ids in ends.items())


def test_timings_are_those_of_all_that_was_done(answering, encoding, shard):
    prompts, _ = encoding.rows(shard, [0, 2])
    _, timing = answering.run(CLAIM, Payload(encoding.prefix, prompts), load_s=0.25).written()
    assert timing.load_s == 0.25
    assert min(timing.prefill_s, timing.decode_s, timing.detokenize_s) > 0
    assert timing.output_tokens > 0
    _, again = answering.run(CLAIM, None).written()
    assert again.encode_s > timing.encode_s


def test_a_batch_of_failures_alone_asks_nothing_of_the_model(answering, monkeypatch):
    monkeypatch.setattr(answering.engine, "run", None)
    answered = answering.run(Claim("job", 3, 0, (1, 4), 2, 1), None)
    assert [kind for *_, kind in outcomes(answered)] == ["null", "too_long"]
    assert answered.device == "cpu"


def test_a_shard_that_is_gone_is_told(answering, shard):
    Path(shard.path).unlink()
    with pytest.raises(InputError, match="does not exist"):
        answering.run(CLAIM, None)


def test_jobs_of_one_model_share_its_engine(answering, means, spec, settings, shard):
    other = build_spec(spec.model_dump(exclude={"max_tokens"}) | {"choices": ("good", "bad")})
    encoding = Encoding(JOB, other, means.vocabulary, means.model.context, means.costs, settings, shard)
    labels = Answering(answering.engine, encoding, {0: shard}.__getitem__)
    before = outcomes(answering.run(CLAIM, None))
    assert {output for _, status, output, _ in outcomes(labels.run(CLAIM, None)) if status is Status.OK} <= {
        "good",
        "bad",
    }
    assert outcomes(answering.run(CLAIM, None)) == before


@pytest.mark.parametrize(
    "asked",
    [
        {"choices": ("good", "go"), "length_normalize": True, "prior_correction": True},
        {"choices": ("good", "bad"), "multi_label": True},
        {"prompt": "Say it:", "score": "text", "logprobs": 1},
        {"embed": "last"},
        {"embed": "mean"},
    ],
)
def test_each_task_is_the_same_by_message_and_of_lost_prompts(answering, means, spec, settings, shard, asked):
    task = build_spec(spec.model_dump(exclude={"max_tokens"}) | asked)

    def worker():
        encoding = Encoding(JOB, task, means.vocabulary, means.model.context, means.costs, settings, shard)
        return encoding, Answering(make_engine(means, settings), encoding, {0: shard}.__getitem__)

    encoding, first = worker()
    prompts, _ = encoding.rows(shard, [0, 2, 3, 5])
    by_message, _ = first.run(CLAIM, unpack(pack(encoding.prefix, prompts))).written()
    _, other = worker()
    again, _ = other.run(CLAIM, None).written()
    assert {c.row_id: c for c in again if c.status is Status.OK} == {c.row_id: c for c in by_message}
    assert len(by_message) == 4


def test_answers_are_held_to_a_shape_by_what_the_jobs_record_says(means, settings, shard, spec):
    held = build_spec(spec.model_dump(exclude_defaults=True) | {"regex": "(ja|nein)!", "max_tokens": 9})
    again = JobSpec.model_validate_json(held.model_dump_json())
    encoding = Encoding(JOB, again, means.vocabulary, means.model.context, means.costs, settings, shard)
    answering = Answering(make_engine(means, settings), encoding, {0: shard}.__getitem__)
    completions, _ = answering.run(CLAIM, None).written()
    answered = [completion for completion in completions if completion.status is Status.OK]
    assert len(answered) == 4
    assert all(completion.output in ("ja!", "nein!") for completion in answered)
