"""Label scores against a whole forward for every label, without any reuse."""

import pytest
import torch

from pipeline.inference.capacity import Capacity
from pipeline.inference.choices import score_choices
from pipeline.inference.engine import Engine
from pipeline.inference.loading import adopt
from pipeline.inference.prefix_store import PrefixStore
from pipeline.inference.stem import Stem
from pipeline.rows import Choose, Status

LABELS = ((7,), (8, 9, 10), (8, 9), (11, 12, 13, 14, 15))
TOLERANCE = 1e-4


def plain(network, context, label):
    """Log-probability of the label's tokens after the context, from one forward over all of it."""
    with torch.no_grad():
        logits = network(torch.tensor([context + label])).logits[0].log_softmax(-1)
    start = len(context) - 1
    return sum(logits[start + place, token].item() for place, token in enumerate(label))


def check(network, batch, labels):
    engine = Engine(adopt(network), PrefixStore(1 << 20), str)
    names = tuple(f"label {place}" for place in range(len(labels)))
    completions, _ = engine.answer(batch, Choose(names, labels))
    network.set_attn_implementation("eager")
    for completion in completions:
        context = batch.prefix + batch.prompts[completion.row_id].own_ids
        expected = torch.tensor([plain(network, context, label) for label in labels]).softmax(-1)
        assert completion.label == completion.output == names[int(expected.argmax())]
        assert completion.score == pytest.approx(expected.max().item(), abs=TOLERANCE)
        assert (completion.status, completion.finish_reason) == (Status.OK, "choice")


def test_scores_are_those_of_a_whole_forward(family, make_batch):
    check(family, make_batch([1, 2, 33, 7], prefix=40), LABELS)


@pytest.mark.parametrize("prefix", [0, 1])
@pytest.mark.parametrize("labels", [LABELS, ((7,), (9,))])
def test_so_they_are_for_any_prefix_and_any_labels(llama, make_batch, prefix, labels):
    check(llama, make_batch([1, 2, 33, 7, 19, 7], prefix), labels)


def test_log_probabilities_themselves_are_exact(llama, make_batch):
    batch = make_batch([5, 9, 2], prefix=0)
    rows = [prompt.own_ids for prompt in batch.prompts]
    with torch.no_grad():
        scores = score_choices(adopt(llama), Stem([()] * len(rows), torch.device("cpu")), rows, LABELS, Capacity())
    llama.set_attn_implementation("eager")
    for row, found in zip(rows, scores.tolist(), strict=True):
        assert found == pytest.approx([plain(llama, row, label) for label in LABELS], abs=TOLERANCE)


def test_many_labels_go_through_in_several_forwards(llama, make_batch, monkeypatch):
    batch = make_batch([5, 9, 2, 8], prefix=3)
    engine = Engine(adopt(llama), PrefixStore(1 << 20), str)
    task = Choose(tuple("abcd"), LABELS)
    whole, _ = engine.answer(batch, task)
    monkeypatch.setattr("pipeline.inference.choices._LOGITS", 1)
    split, _ = engine.answer(batch, task)
    assert [c.label for c in split] == [c.label for c in whole]
    assert [c.score for c in split] == pytest.approx([c.score for c in whole], abs=1e-6)


def test_scores_that_are_not_numbers_are_an_error_row(llama, make_batch):
    batch = make_batch([3, 4])
    model = adopt(llama)
    with torch.no_grad():
        llama.get_input_embeddings().weight[batch.prompts[1].own_ids[0]] = float("nan")
    completions, _ = Engine(model, PrefixStore(1 << 20), str).answer(batch, Choose(("a", "b"), ((7,), (8, 9))))
    by_row = {completion.row_id: completion for completion in completions}
    assert by_row[0].status == Status.OK
    assert by_row[1].status == Status.ERROR
    assert "not finite" in by_row[1].error
