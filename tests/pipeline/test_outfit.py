import pytest

from pipeline.errors import SpecError
from pipeline.inference.checkpoint import resolve_checkpoint
from pipeline.outfit import load_outfit
from pipeline.prompts.vocabulary import Vocabulary
from pipeline.settings import Settings
from pipeline.spec import JobSpec


def outfit(tiny_model, tmp_path, **fields):
    spec = JobSpec.model_validate({"inputs": ["a.csv"], "model": str(tiny_model), "prompt": "{text}", **fields})
    return load_outfit(spec, resolve_checkpoint(spec.model), Settings(home=tmp_path))


def test_it_is_the_tokenizer_and_the_context(tiny_model, tmp_path):
    found = outfit(tiny_model, tmp_path)
    assert found.facts.context == 512
    assert len(Vocabulary(found.facts.tokenizer).ids(["four"])[0]) == 4


@pytest.mark.parametrize("fields", [{"regex": "(a"}, {"prompt": "{text"}, {"raw": True, "choices": ["a", "a "]}])
def test_what_cannot_be_encoded_is_refused(tiny_model, tmp_path, fields):
    with pytest.raises(SpecError):
        outfit(tiny_model, tmp_path, **fields)
