import dataclasses

import pytest

from pipeline.admission import require_same_job
from pipeline.errors import RefusedError
from pipeline.inference.checkpoint import Checkpoint
from pipeline.spec import build_spec
from pipeline.store.records import JobRecord, JobState

SPEC = build_spec({"inputs": "a.csv", "model": "m", "prompt": "{text}", "name": "my night"})
KNOWN = JobRecord("id", "my night", SPEC.model_dump_json(), "print", "model", "input", JobState.DONE, 1, 0.0, 1.0, None)
MODEL = Checkpoint("m", None, None, "model", "tokenizer")


def refusal(spec, model="model", data="input", known=KNOWN):
    with pytest.raises(RefusedError) as caught:
        require_same_job(known, spec, dataclasses.replace(MODEL, digest=model), data)
    return str(caught.value).splitlines()


def changed(**fields):
    return build_spec(SPEC.model_dump() | fields)


def test_the_same_job_may_pass():
    require_same_job(KNOWN, SPEC, MODEL, "input")
    require_same_job(KNOWN, changed(output="x.csv"), MODEL, "input")


def test_every_difference_has_its_line():
    assert refusal(changed(prompt="{text}!", max_tokens=9)) == [
        "There is a job my night already, and this one would give other results:",
        '  prompt: "{text}" -> "{text}!"',
        "  max_tokens: 256 -> 9",
        "Choose another --name, or go on with the old one: pipeline resume 'my night'",
    ]


@pytest.mark.parametrize(
    ("model", "data", "difference"),
    [
        ("other", "input", "  model: its files have changed"),
        ("model", "other", "  inputs: their files have changed"),
        ("other", "other", "  model: its files have changed"),
    ],
)
def test_content_counts_where_the_words_are_the_same(model, data, difference):
    assert refusal(SPEC, model, data)[1:-1] == [difference]


def test_a_changed_model_name_says_it_all():
    assert refusal(changed(model="n"), "other")[1:-1] == ['  model: "m" -> "n"']


def test_standard_input_is_never_known_to_be_the_same():
    known = dataclasses.replace(KNOWN, input_digest="stdin")
    assert refusal(SPEC, data="stdin", known=known)[1:-1] == [
        "  inputs: standard input cannot be compared with what was read before"
    ]
