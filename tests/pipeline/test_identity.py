import pytest

from pipeline.identity import Identity
from pipeline.rows import Choose, Generate, Prompt, Sampling, Score
from pipeline.spec import build_spec

SPEC = build_spec({"inputs": "a.csv", "model": "m", "prompt": "{text}"})
TASK = Generate(16)
PROMPT = Prompt(0, "a", (3, 4, 5))
SAME = Identity(SPEC, "digest", TASK).behind((1, 2))(PROMPT)


def test_it_is_that_of_the_whole_prompt_whatever_row_has_it_and_wherever_it_is_divided():
    identity = Identity(SPEC, "digest", Generate(16))
    other = Prompt(7, "z", (2, 3, 4, 5), cuts=(2,), cut_tokens=3)
    assert identity.behind((1,))(other) == SAME
    assert len(SAME) == 16


@pytest.mark.parametrize(
    "fields", [{"name": "other", "output": "a.csv", "prompt": "{other}", "limit": 3, "reuse_results": True}]
)
def test_what_changes_no_answer_changes_nothing(fields):
    assert Identity(build_spec(SPEC.model_dump() | fields), "digest", TASK).behind((1, 2))(PROMPT) == SAME


@pytest.mark.parametrize(
    "other",
    [
        Identity(SPEC, "of other files", TASK).behind((1, 2))(PROMPT),
        Identity(SPEC.model_copy(update={"dtype": "bfloat16"}), "digest", TASK).behind((1, 2))(PROMPT),
        Identity(SPEC.model_copy(update={"deterministic": True}), "digest", TASK).behind((1, 2))(PROMPT),
        Identity(SPEC, "digest", Generate(17)).behind((1, 2))(PROMPT),
        Identity(SPEC, "digest", Generate(16, ("\n",))).behind((1, 2))(PROMPT),
        Identity(SPEC, "digest", Generate(16, sampling=Sampling(repetition_penalty=1.1))).behind((1, 2))(PROMPT),
        Identity(SPEC, "digest", Generate(16, logprobs=2)).behind((1, 2))(PROMPT),
        Identity(SPEC, "digest", Choose(("a", "b"), ((1,), (2,)))).behind((1, 2))(PROMPT),
        Identity(SPEC, "digest", TASK).behind((1,))(PROMPT),
        Identity(SPEC, "digest", TASK).behind((1, 2))(Prompt(0, "a", (3, 4, 6))),
        Identity(SPEC, "digest", TASK).behind((1, 2))(Prompt(0, "a", (3, 4), target=(5,))),
    ],
)
def test_what_changes_an_answer_changes_it(other):
    assert other != SAME


def test_where_a_text_to_be_scored_begins_counts():
    scoring = Identity(SPEC, "digest", Score())
    first, later = Prompt(0, "a", (3,), target=(4, 5)), Prompt(0, "a", (3, 4), target=(5,))
    assert scoring.behind((1,))(first) != scoring.behind((1,))(later)
