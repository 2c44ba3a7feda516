from typing import Any

import pytest

from pipeline.errors import RowError
from pipeline.openai.parameters import sampling


def test_parameters_are_those_of_a_job() -> None:
    drawn = {"temperature": 0.5, "top_p": 0.9, "seed": 4, "n": 2, "stop": ["."], "top_k": 3, "min_p": 0.1}
    penalties = {"presence_penalty": 0.5, "frequency_penalty": -0.5, "repetition_penalty": 1.1}
    assert sampling(drawn | penalties) == drawn | penalties


@pytest.mark.parametrize(
    "silent",
    [
        {"top_p": 0.5, "top_k": 3, "min_p": 0.1, "seed": 3},
        {"n": 1.0, "stop": [], "frequency_penalty": 0, "presence_penalty": 0.0, "repetition_penalty": 1},
        {"logit_bias": {}, "stream": False, "parallel_tool_calls": False, "best_of": 1, "echo": False, "suffix": ""},
        {"ignore_eos": False, "min_tokens": 0, "stop_token_ids": [], "skip_special_tokens": True, "bad_words": []},
    ],
)
def test_what_changes_nothing_makes_no_other_job(silent: dict[str, Any]) -> None:
    assert sampling({"temperature": 0.0} | silent) == {"temperature": 0}


@pytest.mark.parametrize(
    "changing",
    [
        {"logit_bias": {"5": 1}},
        {"stream": True},
        {"best_of": 3},
        {"echo": True},
        {"suffix": "x"},
        {"modalities": ["audio"]},
        {"functions": [{}]},
        {"min_tokens": 3},
        {"ignore_eos": True},
        {"continue_final_message": True},
        {"wings": 2},
    ],
)
def test_what_would_change_an_answer_is_never_ignored(changing: dict[str, Any]) -> None:
    (name,) = changing
    with pytest.raises(RowError, match=f"^{name} is not supported. Leave it out.$"):
        sampling(changing)
