import pytest

from pipeline.errors import SpecError
from pipeline.excerpt import encode_excerpt
from pipeline.inference.checkpoint import resolve_checkpoint
from pipeline.means import load_means
from pipeline.profile import profile_job
from pipeline.rows import Row
from pipeline.settings import Settings
from pipeline.spec import build_spec

ROWS = [Row(place, str(place), {"text": text}) for place, text in enumerate(["a", None, "bb", "x" * 600, "c" * 40])]


@pytest.fixture(scope="module")
def spec(tiny_model):
    return build_spec({"inputs": "-", "model": str(tiny_model), "prompt": "Say: {text}", "raw": True, "max_tokens": 3})


@pytest.fixture(scope="module")
def settings(tmp_path_factory):
    return Settings(home=tmp_path_factory.mktemp("home"), batch_rows=2)


@pytest.fixture(scope="module")
def means(spec, settings):
    return load_means(spec, resolve_checkpoint(spec.model), settings)


def test_rows_that_can_be_answered_are_in_batches_of_the_jobs_size(spec, means, settings):
    found = profile_job(spec, means, ROWS, settings)
    excerpt = encode_excerpt(spec, means.vocabulary, means.model.context, ROWS)
    assert [prompt.row_id for prompt in excerpt.prompts] == [0, 2, 4]
    assert found.computed_tokens == len(excerpt.prefix) + sum(len(prompt.own_ids) for prompt in excerpt.prompts)
    assert 3 <= found.output_tokens <= 9
    assert sum(found.shares.values()) == pytest.approx(1)


def test_labels_are_no_output(spec, means, settings):
    choosing = build_spec(spec.model_dump(exclude={"max_tokens"}) | {"choices": ("good", "bad")})
    found = profile_job(choosing, means, ROWS, settings)
    assert found.output_tokens == 0
    assert found.seconds > 0


def test_answers_are_short_however_long_they_may_be(spec, means, settings):
    endless = build_spec(spec.model_dump() | {"max_tokens": 300})
    assert profile_job(endless, means, ROWS[:1], settings).output_tokens <= 32


def test_when_no_row_can_be_answered_the_first_says_why(spec, means, settings):
    with pytest.raises(SpecError, match=r"The only row cannot be answered: The column"):
        profile_job(spec, means, ROWS[1:2], settings)
