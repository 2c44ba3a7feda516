import json
import struct

import pyarrow as pa
import pytest

from pipeline.rows import Completion, LabelScore, LikelyToken, Status, TokenLogprob
from pipeline.spec import build_spec
from pipeline.store.column_types import AnyText
from pipeline.store.columns import result_column, result_columns, rows_at_once
from pipeline.store.nested import to_json

FIELDS = {"inputs": "a.csv", "model": "m", "prompt": "{text}"}
USUAL = [
    "status", "output", "finish_reason", "error_type", "error", "prompt_tokens", "reused_tokens", "output_tokens",
]  # fmt: skip
TOKEN = "struct<token_id: int64, token: string, logprob: double"
TOP = f"{TOKEN}, top: list<item: {TOKEN}>>>"
SAMPLE = "struct<output: string, finish_reason: string, output_tokens: int64"


def column(name, kind, completions):
    """As an export makes it, of rows as the database keeps them."""

    def kept(value):
        if isinstance(value, tuple):
            value = to_json(value)
        return AnyText().process_bind_param(value, None) if isinstance(value, str) else value

    names = {name, "scores"}
    return result_column(name, kind, {each: [kept(getattr(row, each)) for row in completions] for each in names})


def spec_json(**fields):
    return build_spec(FIELDS | fields).model_dump_json()


def result_types(spec_json, width=None):
    return {column.name: column.kind for column in result_columns(spec_json, width)}


@pytest.mark.parametrize(
    ("fields", "more"),
    [
        ({}, {}),
        ({"json_schema": "{}"}, {"parsed": "string"}),
        ({"regex": "a"}, {}),
        ({"logprobs": 0}, {"logprobs": f"list<item: {TOKEN}>>"}),
        ({"logprobs": 2}, {"logprobs": f"list<item: {TOP}>"}),
        ({"on_too_long": "head"}, {"cut_tokens": "int64"}),
        ({"choices": "a,b"}, {"scores": "list<item: struct<label: string, probability: double>>"}),
        (
            {"choices": "a,b", "multi_label": True},
            {"labels": "list<item: string>", "scores": "list<item: struct<label: string, probability: double>>"},
        ),
        ({"score": "answer"}, {}),
        ({"score": "answer", "logprobs": 0}, {"logprobs": f"list<item: {TOKEN}>>"}),
        ({"embed": "last"}, {}),
        ({"temperature": 1, "n": 2}, {"samples": f"list<item: {SAMPLE}>>"}),
        (
            {"temperature": 1, "n": 2, "logprobs": 2},
            {"samples": f"list<item: {SAMPLE}, logprobs: list<item: {TOP}>>>", "logprobs": f"list<item: {TOP}>"},
        ),
    ],
)
def test_the_columns_are_those_that_the_job_asked_for(fields, more):
    types = result_types(spec_json(**fields))
    answer = ["output", "label", "score", "finish_reason"] if "choices" in fields else ["output", "finish_reason"]
    answer = ["logprob", "perplexity"] if "score" in fields else answer
    answer = ["embedding"] if "embed" in fields else answer
    assert list(types) == [USUAL[0], *answer, *USUAL[3:], *more]
    assert {name: str(types[name]) for name in more} == more


def test_a_job_of_an_older_version_asked_for_neither():
    assert list(result_types("{}")) == USUAL


def test_an_error_rows_nested_columns_are_null():
    kind = result_types(spec_json(logprobs=1))["logprobs"]
    answered = Completion(0, "0", Status.OK, "a", logprobs=(TokenLogprob(1, "a", -0.5, (LikelyToken(2, "b", -0.25),)),))
    logprobs = column("logprobs", kind, [answered, Completion(1, "1", Status.ERROR)])
    top = [{"token_id": 2, "token": "b", "logprob": -0.25}]
    assert logprobs.to_pylist() == [[{"token_id": 1, "token": "a", "logprob": -0.5, "top": top}], None]
    assert logprobs.type == kind
    assert isinstance(logprobs, pa.ListArray)


def test_embeddings_are_lists_of_one_width():
    rows = [Completion(0, "0", Status.OK, embedding=struct.pack("<3f", 1, -0.5, 2)), Completion(1, "1", Status.ERROR)]
    for width, kind in ((3, "fixed_size_list<item: float>[3]"), (None, "list<item: float>")):
        vectors = column("embedding", result_types(spec_json(embed="last"), width)["embedding"], rows)
        assert str(vectors.type) == kind
        assert vectors.to_pylist() == [[1, -0.5, 2], None]


def test_that_no_label_holds_is_an_answer_and_an_error_has_none():
    kind = result_types(spec_json(choices="a,b", multi_label=True))["labels"]
    scores = (LabelScore("a", 0.25), LabelScore("b", 0.5))
    rows = [
        Completion(0, "0", Status.OK, "b", labels=("b",), scores=scores),
        Completion(1, "1", Status.OK, "", scores=scores[:1]),
        Completion(2, "2", Status.ERROR),
    ]
    assert column("labels", kind, rows).to_pylist() == [["b"], [], None]
    kind = result_types(spec_json(choices="a,b"))["scores"]
    assert column("scores", kind, rows).to_pylist() == [
        [{"label": "a", "probability": 0.25}, {"label": "b", "probability": 0.5}],
        [{"label": "a", "probability": 0.25}],
        None,
    ]


@pytest.mark.parametrize(
    ("fields", "rows"),
    [
        ({}, 4096),
        ({"temperature": 1, "n": 2}, 4096),
        ({"temperature": 1, "n": 64}, 819),
        ({"temperature": 1, "n": 64, "max_tokens": 4096}, 63),
        ({"max_tokens": 64, "logprobs": 0}, 4096),
        ({"max_tokens": 256, "logprobs": 3}, 256),
        ({"max_tokens": 256, "temperature": 1, "n": 64, "logprobs": 20}, 1),
        ({"score": "answer"}, 4096),
        ({"embed": "mean"}, 256),
        ({"score": "answer", "logprobs": 3}, 64),
    ],
)
def test_the_more_a_row_holds_the_fewer_are_in_memory(fields, rows):
    assert rows_at_once(spec_json(**fields), 4096) == rows
    assert rows_at_once(json.dumps(json.loads(spec_json(**fields))), 1) == 1


def test_half_a_surrogate_pair_is_replaced_and_the_rest_is_as_it_was():
    logprobs = (TokenLogprob(1, "b\udc00", -0.5, (LikelyToken(2, "\ud800", -0.25),)),)
    rows = [Completion(0, "0", Status.OK, "a\ud800\0b 🎉", logprobs=logprobs), Completion(1, "1", Status.OK)]
    types = result_types(spec_json(logprobs=1))
    assert column("output", types["output"], rows).to_pylist() == ["a\ufffd\0b 🎉", None]
    assert column("logprobs", types["logprobs"], rows).to_pylist() == [
        [
            {
                "token_id": 1,
                "token": "b\ufffd",
                "logprob": -0.5,
                "top": [{"token_id": 2, "token": "\ufffd", "logprob": -0.25}],
            }
        ],
        None,
    ]
