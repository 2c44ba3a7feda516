import os
from dataclasses import replace

import pytest

from pipeline.errors import ModelError
from pipeline.inference.checkpoint import Checkpoint, identify, resolve_checkpoint
from pipeline.inference.ends_digest import is_of_ends


def directory(path, weights=b"weights"):
    path.mkdir()
    (path / "config.json").write_text("{}")
    (path / "model.safetensors").write_bytes(weights)
    return str(path)


def test_the_small_model_comes_from_its_wheel(small_checkpoint):
    assert small_checkpoint.gguf_file == "SmolLM2-135M-Instruct.Q4_1.gguf"
    assert small_checkpoint.digest.startswith("blake2b-")


def test_the_digest_is_of_the_content_not_of_the_place(tmp_path):
    one, two = directory(tmp_path / "one"), directory(tmp_path / "two")
    other = directory(tmp_path / "other", b"weightz")
    assert resolve_checkpoint(one).digest == resolve_checkpoint(two).digest
    assert resolve_checkpoint(one).digest != resolve_checkpoint(other).digest


@pytest.mark.parametrize("place", [0, 3 << 19, -1])
def test_large_weights_are_told_apart_by_each_byte(tmp_path, place):
    content = bytearray(3 << 20)
    one = directory(tmp_path / "one", content)
    content[place] = 1
    two = directory(tmp_path / "two", content)
    first, second = resolve_checkpoint(one), resolve_checkpoint(two)
    assert first.digest != second.digest
    assert first.tokenizer_digest == second.tokenizer_digest
    assert not first.is_of(second.digest)


@pytest.mark.parametrize(
    "name",
    [
        *("tokenizer.json", "chat_template.jinja", "additional_chat_templates/tools.jinja", "spiece.model"),
        *("tokenizer.model.v3", "vocab.txt", "merges.txt", "qwen.tiktoken", "source.spm", "tokenization.py"),
    ],
)
def test_so_are_tokenizers(tmp_path, name):
    one = directory(tmp_path / "one")
    found = []
    for middle in (b"", b"1", b"2"):
        (tmp_path / "one" / name).parent.mkdir(exist_ok=True)
        (tmp_path / "one" / name).write_bytes(bytes(1 << 21) + middle + bytes(1 << 21))
        found.append(resolve_checkpoint(one))
    assert len({each.digest for each in found}) == len({each.tokenizer_digest for each in found}) == 3


def test_a_gguf_file_is_its_own_tokenizer(tmp_path):
    found = set()
    for middle in (b"1", b"2"):
        (tmp_path / "model.gguf").write_bytes(b"GGUF" + bytes(1 << 21) + middle + bytes(1 << 21))
        checkpoint = resolve_checkpoint(str(tmp_path / "model.gguf"))
        found |= {checkpoint.digest, checkpoint.tokenizer_digest}
    assert len(found) == 2


def test_a_job_that_an_earlier_version_began_is_known_by_what_that_version_read(tmp_path):
    directory(tmp_path / "one", bytes(3 << 20) + b"1")
    (tmp_path / "one" / "chat_template.jinja").write_text("t")
    (tmp_path / "one" / "model.gguf").write_bytes(b"GGUF" + bytes(5))
    (tmp_path / "one" / "tokenizer.model").write_text("was not looked at")
    adapter = tmp_path / "adapter"
    adapter.mkdir()
    (adapter / "adapter_config.json").write_text('{"peft_type": "LORA"}')
    (adapter / "adapter_model.safetensors").write_bytes(b"weights")
    whole, lora = (
        "9de12d269b9efe0bce52aa2c035b044b6f0cc940c90cd37e95806f382c1ac785",
        "0df0073dce1a60014be13e619cb54064d7cf9d4d67c1f270bf2aaf70cee8ffd7",
    )
    gguf = "a412f7072df8d102ae41c334c2ad9e59255f3a0a68e16c57bbb4c0126592b170"
    one = str(tmp_path / "one")
    found = [resolve_checkpoint(f"{one}/model.gguf"), resolve_checkpoint(one), resolve_checkpoint(one, str(adapter))]
    olds = [gguf, whole, f"{whole}+{lora}"]
    assert [[checkpoint.is_of(old) for old in olds] for checkpoint in found] == [
        [place == other for other in range(3)] for place in range(3)
    ]
    on_hub = replace(found[2], source="some/model", revision="a", tokenizer_digest="some/model@a")
    assert on_hub.is_of(f"some/model@a+{lora}")
    assert all(is_of_ends(old) for old in (*olds, f"some/model@a+{lora}"))
    assert not any(is_of_ends(each.digest) for each in (*found, Checkpoint("m/m", None, "a", "m/m@a", "m/m@a")))


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
def test_weights_that_are_touched_are_looked_at_anew(tmp_path, name):
    one = tmp_path / "one"
    directory(one)
    (one / "model.gguf").write_bytes(b"GGUF")
    first = resolve_checkpoint(str(one if name == "model.safetensors" else one / name))
    before = identify(first)
    os.utime(one / name, (9, 9))
    assert identify(first) != before


def test_an_adapter_makes_another_model_and_so_does_each_change_of_it(tmp_path):
    base, adapter = resolve_checkpoint(directory(tmp_path / "one")), tmp_path / "adapter"
    directory(adapter)
    both = replace(base, adapter=adapter)
    first = identify(both)
    os.utime(adapter / "model.safetensors", (9, 9))
    assert len({identify(base), first, identify(both)}) == 3


def test_a_model_on_the_hub_is_known_by_its_revision():
    one, other = (Checkpoint("some/model", None, revision, f"some/model@{revision}", "") for revision in ("a", "b"))
    assert identify(one) == identify(one)
    assert identify(one) != identify(other)
