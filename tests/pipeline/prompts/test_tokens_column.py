"""Prompts that rows bring along as token ids reach the model as they are."""

import json
from datetime import datetime

import pytest

from pipeline.encoder import make_encoder
from pipeline.prompts.shapes import shape_of
from pipeline.rows import Completion, Prompt, Row
from pipeline.spec import build_spec


def encoder_of(vocabulary, **fields):
    spec = build_spec({"inputs": "a.csv", "model": "m", "tokens_column": "ids", "raw": True} | fields)
    return make_encoder(spec, shape_of(spec), vocabulary, datetime(2024, 2, 29), ())


@pytest.mark.parametrize("more", [{}, {"embed": "mean"}, {"embed": "last"}])
def test_nothing_is_put_before_or_behind_them(make, kind, more):
    vocabulary, tokenizer = make(kind)
    encoder = encoder_of(vocabulary, **more)
    prompts = [tokenizer(text)["input_ids"] for text in ("A film", "<s> </s>", "x")]
    values = [prompts[0], prompts[1][::-1], json.dumps(prompts[2])]
    found = encoder.encode([Row(place, "", {"ids": value}) for place, value in enumerate(values)])
    assert encoder.prefix == ()
    assert [list(prompt.own_ids) for prompt in found] == [prompts[0], prompts[1][::-1], prompts[2]]


@pytest.mark.parametrize(
    ("value", "error_type", "message"),
    [
        (None, "null", 'The column "ids" is null in this row, so it has no prompt.'),
        ("Hi", "wrong_type", 'The column "ids" holds no list of token ids in this row, such as [12, 345].'),
        ("[" * 100_000, "wrong_type", 'The column "ids" holds no list of token ids in this row, such as [12, 345].'),
        (5, "wrong_type", 'The column "ids" holds no list of token ids in this row, such as [12, 345].'),
        ([1, "a"], "wrong_type", 'The column "ids" holds no list of token ids in this row, such as [12, 345].'),
        ([True], "wrong_type", 'The column "ids" holds no list of token ids in this row, such as [12, 345].'),
        ([-1], "wrong_type", 'The column "ids" holds no list of token ids in this row, such as [12, 345].'),
        ([1 << 70], "wrong_type", 'The column "ids" holds no list of token ids in this row, such as [12, 345].'),
        ([3, 99_999_999], "wrong_type", "The prompt of this row has the token id 99999999, which the model has not."),
        ([], "empty", "The prompt is empty."),
    ],
)
def test_what_is_no_prompt_is_its_row_s_error_alone(make, value, error_type, message):
    vocabulary, _ = make("gpt2")
    bad, good = encoder_of(vocabulary).encode([Row(0, "a", {"ids": value}), Row(1, "b", {"ids": [3]})])
    assert isinstance(bad, Completion)
    assert (bad.error_type, bad.key) == (error_type, "a")
    assert bad.error.startswith(message)
    assert isinstance(good, Prompt)
