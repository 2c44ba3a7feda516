import os
from dataclasses import replace

import pytest

from pipeline.errors import ModelError
from pipeline.inference.checkpoint import Checkpoint, identify, resolve_checkpoint


def directory(path, weights=b"weights"):
    path.mkdir()
    (path / "config.json").write_text("{}")
    (path / "model.safetensors").write_bytes(weights)
    return str(path)


def test_the_small_model_comes_from_its_wheel(small_checkpoint):
    assert small_checkpoint.gguf_file == "SmolLM2-135M-Instruct.Q4_1.gguf"
    assert len(small_checkpoint.digest) == 64


def test_the_digest_is_of_the_content_not_of_the_place(tmp_path):
    one, two = directory(tmp_path / "one"), directory(tmp_path / "two")
    other = directory(tmp_path / "other", b"weightz")
    assert resolve_checkpoint(one).digest == resolve_checkpoint(two).digest
    assert resolve_checkpoint(one).digest != resolve_checkpoint(other).digest


def test_large_weights_are_told_apart_by_their_end(tmp_path):
    one = directory(tmp_path / "one", bytes(3 << 20) + b"1")
    two = directory(tmp_path / "two", bytes(3 << 20) + b"2")
    assert resolve_checkpoint(one).digest != resolve_checkpoint(two).digest


def test_a_directory_without_a_model_is_said(tmp_path):
    with pytest.raises(ModelError, match=r"holds no model: it needs config.json, a tokenizer, and weights"):
        resolve_checkpoint(str(tmp_path))


def test_a_file_that_is_no_model_is_said(tmp_path):
    path = tmp_path / "model.gguf"
    path.write_text("hello")
    with pytest.raises(ModelError, match=r"model\.gguf is not a model: it is a file, but not in GGUF format"):
        resolve_checkpoint(str(path))


@pytest.mark.parametrize("reference", ["./nowhere", "/no/such/model", "some/deep/path", "missing.gguf"])
def test_a_path_to_nothing_is_said(reference):
    with pytest.raises(ModelError, match=r"There is no model at .*: no such file or directory"):
        resolve_checkpoint(reference)


def test_a_name_that_the_hub_cannot_answer_for_is_said(monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(ModelError, match="no file or directory nobody/nothing, and no model of that name"):
        resolve_checkpoint("nobody/nothing")


def test_a_hub_that_cannot_be_reached_is_a_sentence_and_the_small_model_is_named(monkeypatch):
    def unreachable(*_, **__):
        raise RuntimeError("Name or service not known")

    monkeypatch.setattr("huggingface_hub.model_info", unreachable)
    with pytest.raises(ModelError, match=r"can be had from the hub: RuntimeError.* Did you mean \"smollm2-135m\"\?"):
        resolve_checkpoint("smollm2-135")


def test_a_model_is_the_same_until_one_of_its_files_changes(tmp_path):
    one = directory(tmp_path / "one")
    first = identify(resolve_checkpoint(one))
    assert identify(resolve_checkpoint(one)) == first
    (tmp_path / "one" / "model.safetensors").write_bytes(b"weightz")
    second = identify(resolve_checkpoint(one))
    (tmp_path / "one" / "modeling.py").write_text("")
    third = identify(resolve_checkpoint(one))
    (tmp_path / "one" / "config.json").write_text("{ }")
    assert len({first, second, third, identify(resolve_checkpoint(one))}) == 4


@pytest.mark.parametrize("name", ["model.safetensors", "model.gguf"])
def test_a_change_in_the_midst_of_large_weights_is_seen_by_the_time_of_the_file(tmp_path, name):
    """The digest reads their ends."""
    one = tmp_path / "one"
    directory(one, bytes(3 << 20))
    (one / "model.gguf").write_bytes(b"GGUF" + bytes(3 << 20))
    reference = str(one if name == "model.safetensors" else one / name)
    first = resolve_checkpoint(reference)
    before = identify(first)
    content = bytearray((one / name).read_bytes())
    content[3 << 19] = 1
    (one / name).write_bytes(content)
    os.utime(one / name, (9, 9))
    assert resolve_checkpoint(reference).digest == first.digest
    assert identify(resolve_checkpoint(reference)) != before


def test_an_adapter_makes_another_model_and_so_does_each_change_of_it(tmp_path):
    base, adapter = resolve_checkpoint(directory(tmp_path / "one")), tmp_path / "adapter"
    directory(adapter)
    both = replace(base, adapter=adapter)
    first = identify(both)
    os.utime(adapter / "model.safetensors", (9, 9))
    assert len({identify(base), first, identify(both)}) == 3


def test_a_model_on_the_hub_is_known_by_its_revision():
    one, other = (Checkpoint("some/model", None, revision, f"some/model@{revision}") for revision in ("a", "b"))
    assert identify(one) == identify(one)
    assert identify(one) != identify(other)
