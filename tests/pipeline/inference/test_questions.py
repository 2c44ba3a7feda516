"""Several tasks over the same rows in one batch, held to a batch for each, and to the tokens that are computed."""

from dataclasses import replace

import pytest

from pipeline.inference.bisection import run_bisecting
from pipeline.inference.determinism import deterministic
from pipeline.inference.engine import Engine
from pipeline.inference.loading import adopt
from pipeline.inference.prefix_store import PrefixStore
from pipeline.inference.prelaid import lay_out
from pipeline.prefix_tree import distinct_tokens
from pipeline.rows import Choose, Embed, Generate, Prompt, Questions, Sampling, Score, Status, task_of

ASKED = Questions(
    (
        Choose(("a", "b"), ((7, 8), (9,))),
        Generate(6),
        Score(),
        Generate(6, sampling=Sampling(temperature=1.0, seed=3), samples=2),
        Embed("last"),
        Embed("mean"),
        Generate(6),
    )
)
N = len(ASKED.tasks)
LONG = 90


def spelled(token_ids):
    return " ".join(map(str, token_ids))


@pytest.fixture
def batch(make_batch):
    """Four long rows behind a prefix, each asked everything: a cut is where the row ends."""
    rows = make_batch([LONG, 3, LONG, 20], prefix=30)
    questions = make_batch([4, 1, 3, 2, 5, 6, 1], seed=2).prompts
    prompts = [
        Prompt(
            row.row_id * N + place,
            row.key,
            row.own_ids + question.own_ids,
            () if ASKED.tasks[place] == Embed("mean") else (len(row.own_ids),),
            target=(11, 12, 13) if ASKED.tasks[place] == Score() else (),
        )
        for row in rows.prompts
        for place, question in enumerate(questions)
    ]
    return replace(rows, prompts=tuple(prompts))


def engine_of(model):
    """Of what a batch shares, none is kept for the next one."""
    return Engine(model, PrefixStore(0), spelled)


def seen(completion):
    return (
        completion.key,
        completion.status,
        completion.output,
        completion.label,
        [s.output for s in completion.samples],
    )


def numbers(completion):
    return [score.probability for score in completion.scores] + [completion.logprob or 0.0]


def test_answers_are_those_of_a_job_for_each_question(llama, batch):
    model = adopt(llama)
    together = {completion.row_id: completion for completion in engine_of(model).answer(batch, ASKED)[0]}
    assert len(together) == len(batch.prompts) == 4 * N
    for place, task in enumerate(ASKED.tasks):
        own = [prompt for prompt in batch.prompts if prompt.row_id % N == place]
        alone = replace(batch, prompts=tuple(replace(p, row_id=p.row_id // N, cuts=()) for p in own))
        for expected in engine_of(model).answer(alone, task)[0]:
            found = together[expected.row_id * N + place]
            assert seen(found) == seen(expected)
            assert found.status in (Status.OK, Status.TRUNCATED)
            assert numbers(found) == pytest.approx(numbers(expected), rel=1e-4)
            assert (found.embedding is None) == (expected.embedding is None)
            assert found.prompt_tokens == expected.prompt_tokens


def test_what_the_questions_of_a_row_share_is_computed_once(llama, batch):
    apart = [prompt for prompt in batch.prompts if ASKED.tasks[prompt.row_id % N] == Embed("mean")]
    sharing = [prompt for prompt in batch.prompts if prompt not in apart]
    _, timing = engine_of(adopt(llama)).answer(replace(batch, prompts=tuple(sharing)), ASKED)
    drawn = sum(1 for prompt in sharing if task_of(ASKED, prompt.row_id) == ASKED.tasks[3])
    assert timing.computed_tokens == len(batch.prefix) + distinct_tokens(sharing) + drawn
    whole = sum(len(batch.prefix) + len(prompt.own_ids) for prompt in [*sharing, *sharing[3 :: N - 1]])
    assert timing.computed_tokens + timing.reused_tokens == whole
    assert whole > 4 * timing.computed_tokens


def test_what_only_the_questions_of_one_row_read_is_not_kept(llama, batch):
    """Unless some of them are in another batch."""
    model, kept = adopt(llama), PrefixStore(1 << 24)
    asked = Questions((ASKED.tasks[0], ASKED.tasks[1], ASKED.tasks[1]))
    rows = batch.prompts[:3], [replace(p, row_id=p.row_id - N + 3) for p in batch.prompts[N : N + 3]]
    Engine(model, kept, spelled).answer(replace(batch, prompts=(*rows[0], *rows[1][:2])), asked)
    token = model.shape.bytes_per_token()
    assert kept.nbytes == (len(batch.prefix) + 3) * token
    Engine(model, kept, spelled).answer(replace(batch, prompts=batch.prompts[:3]), ASKED)
    assert kept.nbytes == (len(batch.prefix) + 3 + LONG) * token


def test_rows_that_fail_the_engine_are_errors_of_one_question(llama, batch):
    """A label that no vocabulary has breaks the batch, which is halved down to the rows that are asked for it."""
    broken = Questions((Choose(("a", "b"), ((10**6,), (9,))), *ASKED.tasks[1:]))
    completions, _ = run_bisecting(engine_of(adopt(llama)), batch, broken).written()
    errors = {completion.row_id for completion in completions if completion.status is Status.ERROR}
    assert errors == {0, N, 2 * N, 3 * N}
    assert len(completions) == 4 * N


def test_deterministic_answers_share_the_prefix_alone(llama, batch):
    lay_out(llama)
    model = deterministic(adopt(llama))
    asked = Questions((ASKED.tasks[0], ASKED.tasks[1], ASKED.tasks[1]))
    prompts = tuple(prompt for prompt in batch.prompts if prompt.row_id < 3)
    completions, timing = engine_of(model).answer(replace(batch, prompts=prompts), asked)
    alone = [engine_of(model).answer(replace(batch, prompts=(prompt,)), asked)[0][0] for prompt in prompts]
    assert sorted(completions, key=lambda row: row.row_id) == alone
    assert timing.computed_tokens == len(batch.prefix) + sum(len(prompt.own_ids) for prompt in prompts)
