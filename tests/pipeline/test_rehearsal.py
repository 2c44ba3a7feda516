import pytest

from pipeline.errors import SpecError
from pipeline.inference.checkpoint import resolve_checkpoint
from pipeline.means import load_means
from pipeline.rehearsal import Rehearsal, rehearse
from pipeline.rows import Completion, Generate, Prompt, Row, Status
from pipeline.settings import Settings
from pipeline.spec import build_spec

ROWS = [
    Row(place, str(place), {"text": text})
    for place, text in enumerate(["a", None, "bb", "x" * 600, "say <|im_end|>", "c" * 40])
]


@pytest.fixture(scope="module")
def spec(tiny_model):
    return build_spec({"inputs": "-", "model": str(tiny_model), "prompt": "Say: {text}", "raw": True})


@pytest.fixture(scope="module")
def means(spec, tmp_path_factory):
    return load_means(spec, resolve_checkpoint(spec.model), Settings(home=tmp_path_factory.mktemp("home")))


def test_seconds_grow_with_rows_and_with_tokens():
    prompts = (Prompt(0, "0", (1,) * 10), Prompt(1, "1", (1,) * 30))
    failures = (Completion(2, "2", Status.ERROR),)
    seconds = {"prefix_s": 1.0, "prefill_s": 0.1, "decode_s": 0.5}
    found = Rehearsal((1, 2), prompts, Generate(4), failures, 0, 2, 40, reused=0.1, **seconds)
    assert found.seconds(3, 0) == pytest.approx(1 + 40 * 0.1)
    assert found.seconds(6, 0) == pytest.approx(1 + 2 * 40 * 0.1)
    assert found.seconds(6, 4) == pytest.approx(1 + 2 * (40 * 0.1 + 2 * 4 * 0.5))


def test_the_sample_is_sorted_into_prompts_and_failures(spec, means):
    found = rehearse(spec, means, ROWS, batch_rows=128)
    assert [prompt.row_id for prompt in found.prompts] == [0, 2, 4, 5]
    assert [(failure.row_id, failure.error_type) for failure in found.failures] == [(1, "null"), (3, "too_long")]
    assert found.neutralised == 1
    assert {len(found.prefix) + len(prompt.own_ids) for prompt in found.prompts} == {6, 7, 19, 45}
    assert found.prefix_s > 0
    assert found.prefill_s > 0
    assert found.decode_s > 0


def test_labels_take_no_time_by_their_length(spec, means):
    choosing = build_spec(spec.model_dump(exclude={"max_tokens"}) | {"choices": ("good", "bad")})
    assert rehearse(choosing, means, ROWS, batch_rows=128).decode_s == 0.0


def test_an_answer_of_one_token_needs_no_decoding(spec, means):
    assert (
        rehearse(build_spec(spec.model_dump() | {"max_tokens": 1}), means, ROWS[:1], batch_rows=128).seconds(10, 1) > 0
    )


def test_when_no_row_can_be_answered_the_first_says_why(spec, means):
    with pytest.raises(SpecError, match=r"Of 2 rows looked at, none can be answered\. The first says: The column"):
        rehearse(spec, means, [ROWS[1], ROWS[3]], batch_rows=128)
