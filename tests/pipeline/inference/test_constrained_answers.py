"""Answers held to a shape by a random model, which of itself writes nonsense: what is right about them is held."""

import json
import re

import pytest
import torch
from transformers import AutoModelForCausalLM, LogitsProcessor, LogitsProcessorList

from pipeline.constraints import Constraints
from pipeline.inference.checkpoint import resolve_checkpoint
from pipeline.inference.completions import written
from pipeline.inference.engine import Engine
from pipeline.inference.loading import load_model
from pipeline.inference.prefix_store import PrefixStore
from pipeline.inference.ranks import Answer
from pipeline.inference.sampling import only
from pipeline.inference.seats import seat as seats_of
from pipeline.inference.stopping import StopRule
from pipeline.prompts.vocabulary import Vocabulary
from pipeline.rows import Batch, Constraint, Generate, Prompt, Sampling, Status

DRAWN = Sampling(temperature=1.0, seed=5)
TEXTS = ["Ann is 31.", "b", "A longer text, of which nothing follows.", "", "{", "Zoë"]


def is_person(value):
    return list(value) == ["name", "age"] and isinstance(value["name"], str) and 0 <= value["age"] <= 120


def is_tags(value):
    return 1 <= len(value) <= 3 and all(tag in ("red", "green", "blue") for tag in value)


def is_nested(value):
    return value["of"] in (None, True, False) and all(isinstance(n, int) for point in value["at"] for n in point)


SCHEMAS = [
    (
        {
            "type": "object",
            "properties": {
                "name": {"type": "string", "maxLength": 8},
                "age": {"type": "integer", "minimum": 0, "maximum": 120},
            },
            "required": ["name", "age"],
            "additionalProperties": False,
        },
        is_person,
    ),
    ({"type": "array", "items": {"enum": ["red", "green", "blue"]}, "minItems": 1, "maxItems": 3}, is_tags),
    (
        {
            "type": "object",
            "properties": {
                "of": {"type": ["boolean", "null"]},
                "at": {
                    "type": "array",
                    "maxItems": 2,
                    "items": {"type": "array", "maxItems": 2, "items": {"type": "integer"}},
                },
            },
            "required": ["of", "at"],
            "additionalProperties": False,
        },
        is_nested,
    ),
]


def schema(fields):
    return Constraint("json_schema", json.dumps(fields))


@pytest.fixture(scope="module")
def model(tiny_model):
    """Its scores are near each other, so that much may be drawn."""
    return load_model(resolve_checkpoint(str(tiny_model)), "cpu")


@pytest.fixture(scope="module")
def vocabulary(tiny_model):
    return Vocabulary(tiny_model)


@pytest.fixture(scope="module")
def constraints(vocabulary):
    return Constraints(vocabulary)


@pytest.fixture
def answer(model, vocabulary, constraints):
    """The completions, in the order of the texts."""

    def answers(task, texts=TEXTS, **limits):
        engine = Engine(model, PrefixStore(1 << 20), vocabulary.decode, constraints=constraints, **limits)
        prompts = [Prompt(n, str(n), tuple(vocabulary.ids([f"> {text}"])[0])) for n, text in enumerate(texts)]
        batch = Batch("job", 0, 1, 1, tuple(vocabulary.ids(["Say: "])[0]), tuple(prompts))
        return sorted(engine.answer(batch, task)[0], key=lambda completion: completion.row_id)

    return answers


@pytest.mark.parametrize(("fields", "holds"), SCHEMAS)
@pytest.mark.parametrize("sampling", [Sampling(), DRAWN], ids=["likeliest", "drawn"])
def test_every_whole_answer_is_of_the_schema(answer, fields, holds, sampling):
    found = answer(Generate(160, sampling=sampling, constraint=schema(fields)))
    whole = [completion for completion in found if completion.status is Status.OK]
    assert len(whole) >= len(TEXTS) / 2
    for completion in whole:
        value = json.loads(completion.output)
        assert holds(value)
        assert json.loads(completion.parsed) == value
        assert completion.finish_reason == "stop"


def test_every_whole_answer_matches_the_expression_from_end_to_end(answer):
    expression = "(yes|no), [a-f]{2,6}(é|ü)!?"
    found = answer(Generate(40, sampling=DRAWN, constraint=Constraint("regex", expression)))
    assert all(re.fullmatch(expression, completion.output) for completion in found)
    assert {completion.parsed for completion in found} == {None}
    assert len({completion.output for completion in found}) == len(TEXTS)


def test_a_grammar_may_count_brackets(answer):
    grammar = 'start: pair\npair: "(" (pair | /[0-9]/) ")"'
    found = answer(Generate(200, sampling=DRAWN, constraint=Constraint("grammar", grammar)))
    for completion in (completion for completion in found if completion.status is Status.OK):
        depth = completion.output.count("(")
        assert re.fullmatch(r"\({%d}[0-9]\){%d}" % (depth, depth), completion.output)  # noqa: UP031
    assert any(completion.status is Status.OK for completion in found)


def test_an_answer_that_is_cut_off_is_truncated_and_has_no_value(answer):
    (person, _), *_ = SCHEMAS
    found = answer(Generate(12, constraint=schema(person)))
    assert {completion.status for completion in found} == {Status.TRUNCATED}
    assert {completion.finish_reason for completion in found} == {"length"}
    assert {completion.parsed for completion in found} == {None}
    assert all(completion.output.startswith('{"name": "') for completion in found)


def test_an_answer_that_is_whole_with_its_last_token_is_not_cut_off(answer):
    (found,) = answer(Generate(3, constraint=Constraint("regex", "abc")), TEXTS[:1])
    assert (found.status, found.output, found.finish_reason, found.output_tokens) == (Status.OK, "abc", "stop", 3)


@pytest.mark.parametrize("samples", [1, 2])
@pytest.mark.parametrize("held_to", [schema({"enum": [123]}), Constraint("regex", "123")])
def test_an_answer_that_a_stop_string_ends_is_cut_off(answer, held_to, samples):
    sampling = DRAWN if samples > 1 else Sampling()
    (found,) = answer(Generate(9, ("2",), sampling, samples=samples, constraint=held_to), TEXTS[:1])
    assert (found.status, found.finish_reason, found.output) == (Status.TRUNCATED, "cut", "1")
    assert found.parsed is None
    assert {sample.finish_reason for sample in found.samples} <= {"cut"}


def test_a_stop_string_that_does_not_come_cuts_nothing_off(answer):
    (found,) = answer(Generate(9, ("4",), constraint=schema({"enum": [123]})), TEXTS[:1])
    assert (found.status, found.finish_reason, found.parsed) == (Status.OK, "stop", "123")


def test_a_whole_answer_that_is_not_of_the_schema_is_an_error(answer):
    either = schema({"oneOf": [{"enum": [1, 2]}, {"enum": [2, 3]}]})
    found = answer(Generate(9, sampling=DRAWN, constraint=either), [str(number) for number in range(20)])
    assert {completion.output for completion in found} == {"1", "2", "3"}
    for completion in found:
        if completion.output == "2":
            assert (completion.status, completion.error_type, completion.parsed) == (Status.ERROR, "schema", None)
            assert completion.error.startswith("The answer is not of the schema: 2 is valid under each of {")
        else:
            assert (completion.status, completion.parsed) == (Status.OK, completion.output)


def test_a_row_has_the_same_answer_alone_and_among_others(answer):
    task = Generate(60, sampling=DRAWN, constraint=schema(SCHEMAS[0][0]))
    together = [completion.output for completion in answer(task)]
    assert [completion.output for completion in answer(task, max_lane_bytes=1)] == together
    assert answer(task, TEXTS[:1])[0].output == together[0]


def test_each_sample_is_held_by_itself(answer):
    fields, holds = SCHEMAS[0]
    for completion in answer(Generate(160, sampling=DRAWN, samples=3, constraint=schema(fields))):
        whole = [sample for sample in completion.samples if sample.finish_reason == "stop"]
        assert all(holds(json.loads(sample.output)) for sample in whole)
        assert len({sample.output for sample in completion.samples}) == 3
        first = completion.samples[0]
        assert completion.parsed == (
            json.dumps(json.loads(first.output), ensure_ascii=False) if first in whole else None
        )


def test_log_probabilities_stay_those_of_the_model(answer):
    (found,) = answer(Generate(5, logprobs=1, constraint=Constraint("regex", "ab[cd]")), TEXTS[:1])
    assert [token.token for token in found.logprobs] == list(found.output)
    # A constraint that were counted in would make what alone is allowed certain.
    assert all(-20 < token.logprob < -0.01 for token in found.logprobs)
    assert any(token.top[0].token_id != token.token_id for token in found.logprobs)


def test_penalties_and_narrowing_are_over_what_is_allowed(answer):
    sampling = Sampling(0.8, top_k=2, top_p=0.9, min_p=0.05, repetition_penalty=1.3, presence_penalty=0.5)
    found = answer(Generate(40, sampling=sampling, constraint=Constraint("regex", "[a-z]{5,10}")))
    assert all(re.fullmatch("[a-z]{5,10}", completion.output) for completion in found)


class Held(LogitsProcessor):
    """The same mask, for transformers' own loop."""

    def __init__(self, guide, prompt_tokens):
        self._guide, self._read = guide, prompt_tokens

    def __call__(self, input_ids, scores):
        for token in input_ids[0, self._read :].tolist():
            self._guide.take(0, token)
        self._read = input_ids.shape[1]
        return only(scores, self._guide.allowed([0]))


def test_transformers_writes_the_same_under_the_same_mask(answer, tiny_model, model, vocabulary, constraints):
    network = AutoModelForCausalLM.from_pretrained(tiny_model)
    held_to = Constraint("regex", '[a-z]{3,9}: [0-9.]{4,12}; "(left|right)"')
    found = answer(Generate(40, constraint=held_to))
    for completion, text in zip(found, TEXTS, strict=True):
        prompt = torch.tensor([[token for part in ("Say: ", f"> {text}") for token in vocabulary.ids([part])[0]]])
        held = Held(constraints.guide(held_to, 1, model.stop_ids), prompt.shape[1])
        ids = network.generate(
            prompt,
            max_new_tokens=completion.output_tokens,
            do_sample=False,
            logits_processor=LogitsProcessorList([held]),
        )
        assert vocabulary.decode(ids[0, prompt.shape[1] :].tolist()) == completion.output


def test_an_answer_that_cannot_go_on_is_an_error_of_its_row_alone(answer):
    grammar = 'start: /[a-m]/ <|im_end|> "b" | /[n-z]/'
    found = answer(Generate(9, sampling=DRAWN, constraint=Constraint("grammar", grammar)))
    assert {completion.status for completion in found} == {Status.OK, Status.ERROR}
    for completion in found:
        if completion.status is Status.OK:
            assert re.fullmatch("[n-z]", completion.output)
        else:
            assert completion.error_type == "constraint"
            assert completion.error.startswith("The answer cannot go on: the vocabulary has no token for what ")


@pytest.mark.parametrize(
    ("output", "parsed"),
    [
        ('{"b": 1, "a": [true, "é"]}', '{"b": 1, "a": [true, "é"]}'),
        (' {"b":1.50,"a":"\\u00e9\\/"}', '{"b": 1.5, "a": "é/"}'),
        ('"\\ud83d"', '"\\ud83d"'),
        ("0.3", "0.3"),
    ],
)
def test_a_value_is_spelled_alike(output, parsed):
    completion = completed(output)
    assert (completion.status, completion.output, completion.parsed) == (Status.OK, output, parsed)


@pytest.mark.parametrize("output", ["1" * 5000, "1e999", "[" * 5000 + "]" * 5000, "[1, 2"])
def test_what_no_reader_holds_is_an_error(output):
    completion = completed(output)
    assert (completion.status, completion.error_type, completion.parsed) == (Status.ERROR, "schema", None)
    assert completion.output == output


def completed(output):
    """An answer of that text to a schema of almost anything."""
    (seat,) = seats_of(Batch("job", 0, 1, 1, (), (Prompt(0, "0", (1,)),)))
    rule = StopRule(frozenset({9}), (), lambda ids: output if 9 not in ids else "")
    answer = Answer(0, (1,), 9, token_ids=[1, 9], finish="stop")
    return written(seat, [answer], rule, Generate(9, constraint=schema({"multipleOf": 0.1})))
