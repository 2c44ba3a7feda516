"""From files to a model in memory: nothing made up, nothing twice."""

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import (
    AutoModelForCausalLM,
    BloomConfig,
    DeepseekV3Config,
    FalconConfig,
    Gemma4TextConfig,
    LlamaConfig,
    MambaConfig,
    NemotronConfig,
    Qwen2Config,
    StableLmConfig,
    XLNetConfig,
)

from pipeline.errors import ModelError
from pipeline.inference import loading
from pipeline.inference.checkpoint import Checkpoint, resolve_checkpoint
from pipeline.inference.loading import load_model, read_context

SIZES = {"vocab_size": 300, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2}
HEADS = {"num_attention_heads": 4, "num_key_value_heads": 2, "eos_token_id": 5}


def load(path, dtype="auto"):
    return load_model(resolve_checkpoint(str(path)), "cpu", dtype)


def test_a_family_s_files_are_all_of_its_weights(dense, family, tmp_path):
    family.save_pretrained(tmp_path)
    found = dense(load(tmp_path).network)
    expected = family.state_dict()
    assert found.keys() == expected.keys()
    for name, weight in expected.items():
        forms = (weight, weight.T) if weight.ndim == 2 else (weight,)
        assert any(torch.equal(found[name], form) for form in forms), name


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("family", [LlamaConfig, Qwen2Config])
def test_a_tied_head_is_the_embedding_itself(dense, family, dtype, tmp_path):
    AutoModelForCausalLM.from_config(family(**SIZES, **HEADS, tie_word_embeddings=True)).save_pretrained(tmp_path)
    assert "lm_head.weight" not in load_file(tmp_path / "model.safetensors")
    network = load(tmp_path, dtype).network
    assert torch.equal(dense(network)["lm_head.weight"], network.get_input_embeddings().weight)


def test_a_head_of_its_own_stays_so(dense, tmp_path):
    AutoModelForCausalLM.from_config(LlamaConfig(**SIZES, **HEADS, tie_word_embeddings=False)).save_pretrained(tmp_path)
    network = load(tmp_path).network
    assert not torch.equal(dense(network)["lm_head.weight"], network.get_input_embeddings().weight)


def test_files_without_some_weights_are_no_model(llama, tmp_path):
    """transformers would make random ones."""
    llama.save_pretrained(tmp_path)
    weights = load_file(tmp_path / "model.safetensors")
    del weights["model.layers.1.mlp.up_proj.weight"], weights["model.norm.weight"]
    save_file(weights, tmp_path / "model.safetensors", metadata={"format": "pt"})
    words = r"is incomplete: it has no weights for model\.layers\.1\.mlp\.up_proj\.weight and 1 other\.$"
    with pytest.raises(ModelError, match=words):
        load(tmp_path)


def test_the_context_is_known_without_the_weights(llama, tmp_path):
    llama.save_pretrained(tmp_path)
    checkpoint = resolve_checkpoint(str(tmp_path))
    for weights in tmp_path.glob("*.safetensors"):
        weights.write_bytes(b"nothing that could be loaded")
    assert read_context(checkpoint) == llama.config.max_position_embeddings


def test_a_kind_that_cannot_be_answered_is_refused_without_the_weights(tmp_path):
    MambaConfig(**SIZES).save_pretrained(tmp_path)
    with pytest.raises(ModelError, match="Models of type mamba have layers of type linear_attention"):
        read_context(Checkpoint(str(tmp_path), None, None, "digest", "digest"))


def test_a_configuration_that_cannot_be_read_is_told(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(ModelError, match="cannot be loaded"):
        read_context(Checkpoint(str(tmp_path), None, None, "digest", "digest"))


STRANGE = {
    "stablelm": lambda: StableLmConfig(**SIZES, **HEADS),
    "nemotron": lambda: NemotronConfig(**SIZES, **HEADS),
    "deepseek_v3": lambda: DeepseekV3Config(**SIZES, **HEADS, first_k_dense_replace=2),
}


@pytest.mark.parametrize("kind", STRANGE)
def test_attention_that_rows_cannot_share_is_a_sentence(kind, tmp_path):
    AutoModelForCausalLM.from_config(STRANGE[kind]()).save_pretrained(tmp_path)
    words = (
        rf"^Models of type {kind} cannot be answered: they compute attention in a way that rows cannot share \(.+: .+\)"
    )
    with pytest.raises(ModelError, match=words):
        load(tmp_path)


def test_attention_that_has_no_place_for_another_is_a_sentence(tmp_path):
    config = FalconConfig(vocab_size=300, hidden_size=64, num_hidden_layers=1, num_attention_heads=4)
    AutoModelForCausalLM.from_config(config).save_pretrained(tmp_path)
    with pytest.raises(ModelError, match=r"^The model .* cannot be answered: its family has attention of its own, and"):
        load(tmp_path)


UNANSWERED = {
    "Models of type bloom do not say how many tokens they hold": lambda: BloomConfig(**SIZES, n_layer=1, n_head=4),
    "Models of type xlnet do not say how many tokens they hold": lambda: XLNetConfig(n_layer=1),
    r"layers of this model of type gemma4_text differ in shape \(per_layer_config\)": lambda: Gemma4TextConfig(),
}


@pytest.mark.parametrize("words", UNANSWERED)
def test_a_configuration_that_lacks_what_is_needed_is_refused_without_the_weights(words, tmp_path):
    UNANSWERED[words]().save_pretrained(tmp_path)
    with pytest.raises(ModelError, match=words):
        read_context(Checkpoint(str(tmp_path), None, None, "digest", "digest"))


def test_memory_that_runs_out_is_not_the_family_s_fault(llama, tmp_path, monkeypatch):
    llama.save_pretrained(tmp_path)

    def runs_out(_):
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(loading, "adopt", runs_out)
    with pytest.raises(torch.OutOfMemoryError):
        load(tmp_path)
