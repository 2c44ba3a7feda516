"""What is known of a model without its weights, and when it is asked for anew."""

import json
import shutil
from importlib.metadata import version

import pytest

from pipeline.errors import ModelError
from pipeline.inference import facts, loading
from pipeline.inference.checkpoint import resolve_checkpoint
from pipeline.inference.facts import facts_of


@pytest.fixture
def read(monkeypatch):
    """What was read by way of transformers: a line for each time."""
    lines, read_context = [], loading.read_context

    def noted(checkpoint, **options):
        lines.append(options)
        return read_context(checkpoint, **options)

    monkeypatch.setattr(loading, "read_context", noted)
    return lines


def test_a_model_is_read_once(tiny_model, tmp_path, read):
    checkpoint = resolve_checkpoint(str(tiny_model))
    first = facts_of(checkpoint, tmp_path)
    assert (first.context, (first.tokenizer / "tokenizer.json").is_file()) == (512, True)
    assert facts_of(checkpoint, tmp_path) == first
    assert len(read) == 1


def test_what_another_task_or_trust_would_tell_is_another_matter(tiny_model, tmp_path, read):
    checkpoint = resolve_checkpoint(str(tiny_model))
    asked = [{"trust_remote_code": trust, "embeds": embeds} for trust in (False, True) for embeds in (False, True)]
    for options in asked:
        assert facts_of(checkpoint, tmp_path, **options).context == 512
    assert read == asked


@pytest.mark.parametrize("newer", ["pipeline", "transformers"])
def test_other_software_may_tell_otherwise(tiny_model, tmp_path, read, monkeypatch, newer):
    checkpoint = resolve_checkpoint(str(tiny_model))
    facts_of(checkpoint, tmp_path)
    monkeypatch.setattr(facts, "version", lambda name: "99" if name == newer else version(name))
    facts_of(checkpoint, tmp_path)
    assert len(read) == 2


def test_a_model_that_has_changed_is_read_anew(tiny_model, tmp_path):
    model = shutil.copytree(tiny_model, tmp_path / "model")
    facts_of(resolve_checkpoint(str(model)), tmp_path)
    config = json.loads((model / "config.json").read_text())
    (model / "config.json").write_text(json.dumps(config | {"max_position_embeddings": 99}))
    assert facts_of(resolve_checkpoint(str(model)), tmp_path).context == 99
    (model / "config.json").write_text(json.dumps(config | {"model_type": "t5"}))
    with pytest.raises(ModelError, match="have an encoder"):
        facts_of(resolve_checkpoint(str(model)), tmp_path)


def test_what_is_lost_or_damaged_is_read_anew(tiny_model, tmp_path, read):
    checkpoint = resolve_checkpoint(str(tiny_model))
    first = facts_of(checkpoint, tmp_path)
    (note,) = (tmp_path / "models").iterdir()
    for damage in ("", "[]", '{"context": null}'):
        note.write_text(damage)
        assert facts_of(checkpoint, tmp_path) == first
    shutil.rmtree(first.tokenizer)
    assert facts_of(checkpoint, tmp_path) == first
    assert (first.tokenizer / "tokenizer.json").is_file()
    assert len(read) == 5


def test_where_nothing_can_be_noted_it_is_read_each_time(tiny_model, tmp_path, read):
    (tmp_path / "models").touch()
    checkpoint = resolve_checkpoint(str(tiny_model))
    assert facts_of(checkpoint, tmp_path) == facts_of(checkpoint, tmp_path)
    assert len(read) == 2
