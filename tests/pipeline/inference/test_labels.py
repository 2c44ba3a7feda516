"""Probabilities of labels, in each way of comparing them, against formulas over whole forwards."""

import math

import pytest
import torch

from pipeline.inference.completions import chosen
from pipeline.inference.engine import Engine
from pipeline.inference.labels import probabilities
from pipeline.inference.loading import adopt
from pipeline.inference.prefix_store import PrefixStore
from pipeline.inference.seats import Seat
from pipeline.rows import Choose, Prompt, Questions, Status

NAMES = ("a", "b", "c", "d")
IDS = ((7,), (8, 9, 10), (8, 9), (11, 12, 13, 14, 15))  # the second begins with the third
CONTENT_FREE = (21, 22, 23, 24)


@pytest.fixture
def measured(llama, make_batch):
    """For each row its completion, and the plain log-probabilities of the task's continuations after any ids."""

    def plain(context, ids):
        with torch.no_grad():
            logprobs = llama(torch.tensor([[*context, *ids]])).logits[0].log_softmax(-1)
        return sum(logprobs[len(context) - 1 + place, token].item() for place, token in enumerate(ids))

    def measure(task):
        batch = make_batch([1, 9, 4])
        completions, _ = Engine(adopt(llama), PrefixStore(1 << 20), str).answer(batch, task)
        llama.set_attn_implementation("eager")
        for completion in completions:
            assert (completion.status, completion.finish_reason) == (Status.OK, "choice")
            assert [score.label for score in completion.scores] == list(task.labels)
            context = batch.prefix + batch.prompts[completion.row_id].own_ids
            yield (
                completion,
                [score.probability for score in completion.scores],
                [plain(context, ids) for ids in task.label_ids],
                [plain(CONTENT_FREE, ids) for ids in task.label_ids],
            )

    return measure


def shares(weights):
    whole = sum(map(math.exp, weights))
    return pytest.approx([math.exp(weight) / whole for weight in weights], abs=1e-4)


def test_every_label_has_its_probability(measured):
    for completion, found, logprobs, _ in measured(Choose(NAMES, IDS)):
        assert found == shares(logprobs)
        assert (completion.label, completion.score) == (NAMES[found.index(max(found))], max(found))
        assert completion.output == completion.label
        assert completion.labels == ()


def test_normalised_by_length_the_mean_of_the_tokens_counts(measured):
    for _, found, logprobs, _ in measured(Choose(NAMES, IDS, length_normalize=True)):
        assert found == shares([logprob / len(ids) for logprob, ids in zip(logprobs, IDS, strict=True)])


def test_corrected_the_content_free_prompt_s_probabilities_are_divided_out(measured):
    for _, found, logprobs, prior in measured(Choose(NAMES, IDS, content_free=CONTENT_FREE)):
        assert found == shares([logprob - before for logprob, before in zip(logprobs, prior, strict=True)])


def test_both_together_correct_the_means(measured):
    for _, found, logprobs, prior in measured(Choose(NAMES, IDS, True, content_free=CONTENT_FREE)):
        parts = zip(logprobs, prior, IDS, strict=True)
        assert found == shares([(logprob - before) / len(ids) for logprob, before, ids in parts])


@pytest.mark.parametrize("content_free", [(), CONTENT_FREE])
def test_of_several_labels_each_has_a_probability_of_its_own(measured, content_free):
    task = Choose(("a", "b"), ((7, 30), (7, 31), (8, 9, 30), (8, 9, 31)), several=True, content_free=content_free)
    for completion, found, logprobs, prior in measured(task):
        weights = [one - other for one, other in zip(logprobs, prior, strict=True)] if content_free else logprobs
        odds = [weights[0] - weights[1], weights[2] - weights[3]]
        assert found == pytest.approx([1 / (1 + math.exp(-each)) for each in odds], abs=1e-4)
        assert set(completion.labels) == {name for name, share in zip("ab", found, strict=True) if share >= 0.5}
        assert completion.score == max(found)


def test_labels_that_hold_are_told_the_likeliest_first():
    task = Choose(("a", "b", "c"), ((1,),) * 6, several=True)
    logprobs = torch.tensor([[0.6, 0.4, 0.2, 0.8, 0.9, 0.1], [0.3, 0.7, 0.2, 0.8, 0.4, 0.6]]).log()
    some, none = (
        chosen(Seat(Prompt(0, "0", (1,)), (), (1,), 0), found, task) for found in probabilities(logprobs, task, None)
    )
    assert [score.probability for score in some.scores] == pytest.approx([0.6, 0.2, 0.9])
    assert (some.labels, some.output, some.label, some.score) == (("c", "a"), "c, a", "c", pytest.approx(0.9))
    assert (none.labels, none.output, none.label, none.score) == ((), "", "c", pytest.approx(0.4))


def test_the_content_free_prompt_of_each_task_is_computed_once(llama, make_batch, monkeypatch):
    from pipeline.inference import labels

    asked = []
    measure = labels.score_choices
    monkeypatch.setattr(labels, "score_choices", lambda *given: asked.append(len(given[2])) or measure(*given))
    engine = Engine(adopt(llama), PrefixStore(1 << 20), str)
    task, other = (Choose(("a", "b"), ((7,), (9,)), content_free=ids) for ids in (CONTENT_FREE, (25,)))
    for each in (task, other, task, other):
        engine.answer(make_batch([3, 4]), each)
    assert asked == [2, 1, 2, 1, 2, 2]
    engine.answer(make_batch([3, 4]), Questions((task, other)))
    assert asked[6:] == [1, 1]


def test_of_content_free_prompts_the_one_used_last_is_kept(llama, make_batch, monkeypatch):
    from pipeline.inference import labels

    monkeypatch.setattr(labels, "_PRIORS", 2)
    engine = Engine(adopt(llama), PrefixStore(1 << 20), str)
    tasks = [Choose(("a", "b"), ((7,), (9,)), content_free=(20 + number,)) for number in range(3)]
    for place in (0, 1, 0, 2):
        engine.answer(make_batch([3]), tasks[place])
    assert list(engine._labelling._priors) == [tasks[0], tasks[2]]


def test_a_number_that_is_none_spoils_its_own_row_alone():
    logprobs = torch.tensor([[-1.0, -2.0], [-1.0, -math.inf]])
    found = probabilities(logprobs, Choose(("a", "b"), ((1,), (2,))), None)
    assert found[0].isfinite().all()
    assert found[1].isnan().all()
