"""What must come next in an answer is read without a step of its own, and no answer is another one for it."""

import json
import re

import pytest

from pipeline.constraints import Constraints
from pipeline.inference import generation
from pipeline.inference.crew import Crew
from pipeline.inference.engine import Engine
from pipeline.inference.loading import adopt
from pipeline.inference.prefix_store import PrefixStore
from pipeline.prompts.vocabulary import Vocabulary
from pipeline.rows import Batch, Constraint, Generate, Prompt, Sampling
from tests.pipeline.inference.conftest import small_memory

TEXTS = ["Ann is 31.", "b", "A longer text, of which nothing follows, and that is over a window long.", "c", "{"]
DRAWN = Sampling(0.9, seed=5, repetition_penalty=1.5, presence_penalty=2.0)
LONG = Constraint(
    "json_schema",
    json.dumps(
        {
            "type": "object",
            "properties": {"a": {"enum": [1, 2]}, "a_longer_name": {"type": "boolean"}, "z": {"enum": ["x", "yy"]}},
            "required": ["a", "a_longer_name", "z"],
            "additionalProperties": False,
        }
    ),
)


@pytest.fixture(scope="module")
def vocabulary(tiny_model):
    return Vocabulary(tiny_model)


@pytest.fixture(scope="module")
def constraints(vocabulary):
    return Constraints(vocabulary)


@pytest.fixture
def answer(vocabulary, constraints):
    """What each row was answered, in the order of the texts."""

    def answers(network, task, memory=None, **limits):
        engine = Engine(adopt(network), PrefixStore(1 << 20), vocabulary.decode, constraints=constraints, **limits)
        if memory is not None:
            small_memory(network, memory)
        prompts = [Prompt(n, str(n), tuple(vocabulary.ids([f"> {text}"])[0])) for n, text in enumerate(TEXTS)]
        batch = Batch("job", 0, 1, 1, tuple(vocabulary.ids(["Say something of this: "])[0]), tuple(prompts))
        found = sorted(engine.answer(batch, task)[0], key=lambda completion: completion.row_id)
        assert {completion.error for completion in found} == {None}
        return [
            [(s.output, s.finish_reason, s.output_tokens) for s in completion.samples]
            or (completion.output, completion.finish_reason, completion.output_tokens)
            for completion in found
        ]

    return answers


@pytest.fixture
def steps(monkeypatch):
    """How many rows each forward went on with, and how many tokens it read for them beforehand."""
    counted = []

    class Counting(Crew):
        def step(self):
            counted.append((len(self.answers), 0))
            return super().step()

        def step_with(self, newcomers):
            counted.append((len(self.answers), sum(answer.overdue for answer in self.answers)))
            return super().step_with(newcomers)

    monkeypatch.setattr(generation, "Crew", Counting)
    return counted


@pytest.mark.parametrize("sampling", [Sampling(), DRAWN], ids=["likeliest", "drawn"])
def test_every_family_answers_as_if_all_tokens_were_picked(answer, family, sampling):
    """Where log-probabilities are to be told, each token has a step of its own."""
    skipping = answer(family, Generate(60, sampling=sampling, constraint=LONG))
    assert skipping == answer(family, Generate(60, sampling=sampling, constraint=LONG, logprobs=0))
    assert {finish for _, finish, _ in skipping} == {"stop"}


def test_what_is_forced_takes_no_step(answer, llama, steps):
    found = answer(llama, Generate(60, constraint=LONG))
    skipping, steps[:] = list(steps), []
    answer(llama, Generate(60, constraint=LONG, logprobs=0))
    assert len(steps) == max(tokens for _, _, tokens in found)
    # The prompts; behind what is forced then, the digit, the truth value, and which of two texts it is.
    assert len(skipping) == 4
    assert [rows for rows, _ in skipping] == [0, 5, 5, 5]
    assert skipping[1] == (5, 5 * len('"a": '))


def test_rows_at_different_places_go_on_beside_each_other(answer, llama, steps):
    task = Generate(40, sampling=DRAWN, samples=3, constraint=Constraint("regex", "([a-z]{1,4}: forced; ){1,3}end"))
    found = answer(llama, task)
    assert found == answer(llama, Generate(40, sampling=DRAWN, samples=3, constraint=task.constraint, logprobs=0))
    assert any(late and rows > 1 for rows, late in steps)
    one_lane = answer(llama, task, max_lane_bytes=1)
    assert one_lane == found
    assert answer(llama, task, forward_tokens=40) == found
    assert all(re.fullmatch("([a-z]{1,4}: forced; ){1,3}end", s[0]) for row in found for s in row if s[1] == "stop")


def test_more_than_a_forward_holds_is_read_in_steps(answer, llama):
    expected = answer(llama, Generate(60, sampling=DRAWN, constraint=LONG))
    assert answer(llama, Generate(60, sampling=DRAWN, constraint=LONG), memory=6) == expected


def test_a_limit_or_a_stop_string_ends_an_answer_in_the_midst_of_what_is_forced(answer, llama):
    forced = Constraint("regex", "abcdefghij")
    assert set(answer(llama, Generate(4, constraint=forced))) == {("abcd", "length", 4)}
    assert set(answer(llama, Generate(9, ("ef",), constraint=forced))) == {("abcd", "cut", 6)}
    assert set(answer(llama, Generate(10, constraint=forced))) == {("abcdefghij", "stop", 10)}
