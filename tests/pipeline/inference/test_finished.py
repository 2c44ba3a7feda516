"""Texts written apart from the device's work, on another thread; and what a text that cannot be written costs."""

import threading

import pytest

from pipeline.inference.completions import written
from pipeline.inference.engine import Engine
from pipeline.inference.loading import adopt
from pipeline.inference.prefix_store import PrefixStore
from pipeline.inference.ranks import Answer
from pipeline.inference.seats import Seat
from pipeline.inference.stopping import StopRule
from pipeline.rows import Choose, Generate, Prompt, Status

LABELS = Choose(("a", "b"), ((7,), (8, 9)))


def spelled(token_ids):
    return " ".join(map(str, token_ids))


def by_row(completions):
    return sorted(completions, key=lambda completion: completion.row_id)


@pytest.mark.parametrize("task", [Generate(6), LABELS], ids=["generate", "choose"])
def test_texts_are_the_same_whenever_and_wherever_they_are_written(llama, make_batch, task):
    engine = Engine(adopt(llama), PrefixStore(1 << 20), spelled)
    first, second = make_batch([4, 9, 7]), make_batch([5, 3], seed=2)
    expected = [by_row(engine.answer(batch, task)[0]) for batch in (first, second)]
    finished = [engine.run(batch, task) for batch in (first, second)]
    found = []
    thread = threading.Thread(target=lambda: found.extend(each.written() for each in finished))
    thread.start()
    thread.join()
    assert [[c.output for c in by_row(completions)] for completions, _ in found] == [
        [c.output for c in completions] for completions in expected
    ]
    for completions, timing in found:
        assert timing.output_tokens == sum(completion.output_tokens for completion in completions)
        assert timing.prefill_s > 0


def test_no_text_is_written_before_it_is_asked_for(llama, make_batch):
    asked = []

    def decode(token_ids):
        asked.append(len(token_ids))
        return spelled(token_ids)

    finished = Engine(adopt(llama), PrefixStore(1 << 20), decode).run(make_batch([4, 9]), Generate(6))
    assert asked == []
    finished.written()
    assert len(asked) == 2


def test_a_text_that_cannot_be_written_costs_no_other_row_its_own(llama, make_batch):
    batch = make_batch([4, 9, 7], prefix=10)
    whole = by_row(Engine(adopt(llama), PrefixStore(1 << 20), spelled).answer(batch, Generate(6))[0])

    def decode(token_ids):
        if spelled(token_ids) == whole[1].output:
            raise UnicodeDecodeError("utf-8", b"x", 0, 1, "no text")
        return spelled(token_ids)

    found = by_row(Engine(adopt(llama), PrefixStore(1 << 20), decode).answer(batch, Generate(6))[0])
    assert [found[0], found[2]] == [whole[0], whole[2]]
    assert (found[1].status, found[1].error_type, found[1].prompt_tokens) == (Status.ERROR, "engine", 19)
    assert found[1].error.startswith("The engine failed on this row, also alone: UnicodeDecodeError")


def test_an_answer_whose_text_a_stop_string_cut_has_stopped_however_many_tokens_came():
    answers = [Answer(0, (1,), 3, token_ids=[4, 5, 6], finish="length") for _ in range(2)]
    seat = Seat(Prompt(0, "0", (1,)), (), (1,), 0)
    cut, whole = (written(seat, answers, StopRule(frozenset(), (s,), spelled), Generate(3)) for s in ("5", "7"))
    assert [(c.status, c.finish_reason, c.output) for c in (cut, whole)] == [
        (Status.OK, "stop", "4 "),
        (Status.TRUNCATED, "length", "4 5 6"),
    ]
    assert [sample.finish_reason for sample in cut.samples] == ["stop", "stop"]
