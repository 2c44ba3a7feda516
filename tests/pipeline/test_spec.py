import json

import pytest

from pipeline.errors import SpecError
from pipeline.rows import Constraint
from pipeline.spec import HARMLESS, JobSpec, build_spec

FIELDS = {"inputs": ["/data/rows.csv"], "model": "m", "prompt": "Say {text}"}
#: Each field with another value than FIELDS and the defaults give it.
OTHERS = {
    "questions": {"mood": {}},
    "deterministic": True,
    "dedupe": False,
    "keep_order": True,
    "reuse_results": True,
    "priority": 3,
    "notify": {"command": "true"},
    "inputs": ["/data/other.csv"],
    "model": "n",
    "prompt": "Sing {text}",
    "sql": "SELECT 1",
    "name": "night",
    "system": "Be kind.",
    "raw": True,
    "choices": ["good", "bad"],
    "length_normalize": True,
    "multi_label": True,
    "prior_correction": True,
    "score": "answer",
    "embed": "mean",
    "json_schema": '{"type": "string"}',
    "regex": "[0-9]+",
    "grammar": 'start: "a"',
    "max_tokens": 7,
    "stop": ["."],
    "temperature": 0.7,
    "top_k": 40,
    "top_p": 0.9,
    "min_p": 0.05,
    "repetition_penalty": 1.1,
    "presence_penalty": 0.5,
    "frequency_penalty": 0.5,
    "seed": 1,
    "n": 3,
    "logprobs": 0,
    "key": "id",
    "limit": 3,
    "where": "n > 3",
    "sample": "10%",
    "output": "/data/out.csv",
    "trust_remote_code": True,
    "dtype": "bfloat16",
    "adapter": "/data/lora",
    "on_too_long": "head",
    "cut": "text",
    "normalize": "nfc",
    "strip_invisible": True,
    "unescape_html": True,
    "template": "jinja",
    "messages": [{"role": "user", "content": "{text}"}],
    "messages_column": "turns",
    "tokens_column": "ids",
    "examples": [{"text": "a", "answer": "b"}],
    "template_vars": {"enable_thinking": False},
    "tools": [{"type": "function"}],
}
#: Fields that need another one beside them.
NEEDS: dict[str, dict[str, object]] = {
    **{field: {"temperature": 1.0} for field in ("top_k", "top_p", "min_p", "seed", "n")},
    **{field: {"choices": "good,bad"} for field in ("length_normalize", "multi_label", "prior_correction")},
}
NEEDS["messages"] = {"prompt": None, "messages": [{"role": "user", "content": "{other}"}]}
NEEDS["messages_column"] = {"prompt": None, "messages_column": "chat"}
NEEDS["tokens_column"] = {"prompt": None, "tokens_column": "others", "raw": True}
NEEDS["cut"] = {"on_too_long": "tail"}
NEEDS["sql"] = {"inputs": ["sqlite:////data/a.db"]}


def test_lists_may_be_written_as_one_text():
    spec = build_spec(FIELDS | {"inputs": "a.csv", "choices": "good, very bad"})
    assert (spec.inputs, spec.choices) == (("a.csv",), ("good", "very bad"))
    assert build_spec(FIELDS | {"stop": ", and"}).stop == (", and",)


def test_a_sample_is_a_number_or_a_share():
    spec = build_spec(FIELDS | {"sample": 5, "seed": 3})
    assert (spec.sample, spec.sample_count, spec.sample_share) == ("5", 5, None)
    spec = build_spec(FIELDS | {"sample": "2.5%"})
    assert (spec.sample_count, spec.sample_share) == (None, 0.025)


def test_a_spec_survives_the_ledger():
    spec = build_spec(FIELDS | {"choices": "good,bad", "output": "a.csv", "key": "id"})
    assert JobSpec.model_validate_json(spec.model_dump_json()) == spec
    drawn = build_spec(FIELDS | {"temperature": 0.7, "top_p": 0.9, "repetition_penalty": 1.1})
    assert JobSpec.model_validate_json(drawn.model_dump_json()) == drawn


def test_penalties_need_no_temperature():
    spec = build_spec(FIELDS | {"repetition_penalty": 1.2, "presence_penalty": -0.5, "temperature": 0, "seed": 0})
    assert (spec.repetition_penalty, spec.presence_penalty, spec.temperature) == (1.2, -0.5, 0)


def test_what_is_so_by_itself_may_be_said():
    said = {"temperature": 0, "repetition_penalty": 1, "presence_penalty": 0, "seed": 0, "n": 1, "max_tokens": 256}
    for base in (FIELDS, FIELDS | {"choices": "good,bad"}):
        assert build_spec(base | said).fingerprint("m", "i") == build_spec(base).fingerprint("m", "i")


def test_a_score_may_tell_of_each_token():
    spec = build_spec(FIELDS | {"score": "answer", "logprobs": 3})
    assert (spec.beside, spec.writes, build_spec(FIELDS).writes) == (("answer",), False, True)


def test_a_schema_is_the_same_written_out_or_as_text_and_keeps_the_order_of_its_properties():
    written = {"type": "object", "properties": {"b": {"const": "é"}, "a": {}}}
    one, other = (build_spec(FIELDS | {"json_schema": form}) for form in (written, json.dumps(written, indent=4)))
    assert one == other == JobSpec.model_validate_json(one.model_dump_json())
    assert one.constraint == Constraint("json_schema", json.dumps(written, ensure_ascii=False))
    turned = {"type": "object", "properties": {"a": {}, "b": {"const": "é"}}}
    assert build_spec(FIELDS | {"json_schema": turned}).fingerprint("m", "i") != one.fingerprint("m", "i")


def test_a_shape_is_one_of_three_or_none():
    assert build_spec(FIELDS).constraint is None
    assert build_spec(FIELDS | {"regex": "a"}).constraint == Constraint("regex", "a")
    assert build_spec(FIELDS | {"grammar": 'start: "a"'}).constraint == Constraint("grammar", 'start: "a"')


def test_others_is_complete():
    assert set(OTHERS) == set(JobSpec.model_fields)


@pytest.mark.parametrize("field", sorted(OTHERS))
def test_a_fingerprint_tells_all_that_changes_a_result_and_nothing_else(field):
    base = FIELDS | NEEDS.get(field, {})
    one, other = build_spec(base), build_spec(base | {field: OTHERS[field]})
    assert (one.fingerprint("m", "i") == other.fingerprint("m", "i")) == (field in HARMLESS)
    assert [line.partition(":")[0] for line in one.differences(other)] == ([] if field in HARMLESS else [field])


def test_a_fingerprint_tells_the_models_and_the_inputs_content():
    spec = build_spec(FIELDS)
    prints = {spec.fingerprint(model, data) for model in ("m", "n") for data in ("i", "j")}
    assert len(prints) == 4
    assert {len(text) for text in prints} == {64}


def test_long_differences_are_shortened():
    one, other = build_spec(FIELDS | {"prompt": "é" * 80}), build_spec(FIELDS)
    assert one.differences(other) == [f'prompt: "{"é" * 56}... -> "Say {{text}}"']


def test_every_missing_field_is_named():
    with pytest.raises(SpecError) as caught:
        build_spec({})
    assert str(caught.value).splitlines() == [
        "The job has no inputs; give INPUT, or `inputs:` in the job file.",
        "The job has no model; give --model, or `model:` in the job file.",
        "The job has no prompt; give --prompt, or `prompt:` in the job file.",
    ]


def test_a_column_is_cut_only_where_it_is_said_how():
    with pytest.raises(SpecError, match="--cut needs --on-too-long, which says how: head, tail, middle or salient"):
        build_spec(FIELDS | {"cut": "text"})
    assert build_spec(FIELDS | {"cut": "text", "on_too_long": "salient"}).cut == "text"


@pytest.mark.parametrize(
    ("field", "message"),
    [
        ("on_too_long", "--on-too-long must be 'error', 'head', 'tail', 'middle' or 'salient', and not 'middel'."),
        ("normalize", "--normalize must be 'nfc' or 'nfkc', and not 'middel'."),
    ],
)
def test_a_way_that_is_none_is_told_those_that_there_are(field, message):
    with pytest.raises(SpecError) as refused:
        build_spec(FIELDS | {field: "middel"})
    assert str(refused.value) == message
