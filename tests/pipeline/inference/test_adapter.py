"""LoRA adapters against peft's own model, and what is refused before or while one is loaded."""

import json
import shutil
import warnings

import pytest
import torch
from peft import LoraConfig, PeftModel, PromptTuningConfig, get_peft_model
from transformers import AutoModelForCausalLM, LlamaConfig

from pipeline.errors import ModelError
from pipeline.inference.adapter import CONFIG, WEIGHTS
from pipeline.inference.checkpoint import resolve_checkpoint
from pipeline.inference.engine import Engine
from pipeline.inference.loading import load_model
from pipeline.inference.prefix_store import PrefixStore
from pipeline.rows import Generate

SIZES = {"vocab_size": 300, "hidden_size": 64, "intermediate_size": 96, "num_attention_heads": 4, "eos_token_id": 5}
KINDS = {
    "attention and mlp": {"target_modules": ["q_proj", "v_proj", "down_proj"]},
    "every linear layer": {"target_modules": "all-linear", "lora_bias": True},
    "embedding and head": {"target_modules": ["k_proj", "embed_tokens", "lm_head"]},
    "a head of its own": {"target_modules": ["q_proj"], "modules_to_save": ["lm_head"]},
    "dora": {"target_modules": ["o_proj"], "use_dora": True},
}


def save_model(path, tied=False, **sizes):
    torch.manual_seed(0)
    config = LlamaConfig(**SIZES | {"num_hidden_layers": 3, "tie_word_embeddings": tied} | sizes)
    network = AutoModelForCausalLM.from_config(config)
    with torch.no_grad():
        for weight in network.parameters():
            if weight.ndim >= 2:
                weight.mul_(10)
    network.save_pretrained(path)
    return path


@pytest.fixture
def base(tmp_path):
    return save_model(tmp_path / "base")


def save_adapter(base, path, **options):
    """Of random weights in all that it would train."""
    network = AutoModelForCausalLM.from_pretrained(base)
    with warnings.catch_warnings(action="ignore"):
        adapted = get_peft_model(network, LoraConfig(r=4, lora_alpha=8, **options))
        torch.manual_seed(1)
        with torch.no_grad():
            for name, weight in adapted.named_parameters():
                if weight.requires_grad and "magnitude" not in name:
                    weight.normal_(std=0.3)
        adapted.save_pretrained(path)
    return path


@pytest.fixture
def adapter(base, tmp_path):
    return save_adapter(base, tmp_path / "adapter", target_modules=["q_proj", "up_proj"])


def load(base, adapter=None):
    return load_model(resolve_checkpoint(str(base), None if adapter is None else str(adapter)), "cpu")


def outputs(model, batch):
    engine = Engine(model, PrefixStore(1 << 20), lambda ids: " ".join(map(str, ids)))
    return {answer.row_id: answer.output for answer in engine.answer(batch, Generate(10))[0]}


def expected_outputs(base, adapter, batch):
    with warnings.catch_warnings(action="ignore"):
        plain = PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(base), adapter).eval()
    found = {}
    for prompt in batch.prompts:
        ids = torch.tensor([batch.prefix + prompt.own_ids])
        whole = plain.generate(
            input_ids=ids, attention_mask=torch.ones_like(ids), max_new_tokens=10, do_sample=False, pad_token_id=0
        )
        found[prompt.row_id] = " ".join(str(token) for token in whole[0, ids.shape[1] :].tolist() if token != 5)
    return found


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_answers_are_those_of_peft(kind, tied, tmp_path, make_batch):
    base = save_model(tmp_path / "base", tied)
    adapter = save_adapter(base, tmp_path / "adapter", **KINDS[kind])
    batch = make_batch([1, 20, 7])
    found = outputs(load(base, adapter), batch)
    assert found == expected_outputs(base, adapter, batch)
    assert found != outputs(load(base), batch)


def test_it_is_merged_so_that_it_costs_nothing(base, adapter):
    network = load(base, adapter).network
    assert type(network).__name__ == "LlamaForCausalLM"
    assert not [name for name, _ in network.named_modules() if "lora" in name]


def test_a_model_with_an_adapter_is_another_model(base, adapter, tmp_path):
    other = shutil.copytree(adapter, tmp_path / "other")
    fields = json.loads((other / CONFIG).read_text())
    (other / CONFIG).write_text(json.dumps(fields | {"lora_alpha": 9}))
    (adapter / "README.md").write_text("What a training program wrote about it changes nothing.")
    alone, first, again, second = (
        resolve_checkpoint(str(base), way and str(way)).digest for way in (None, adapter, adapter, other)
    )
    assert first == again
    assert len({alone, first, second}) == 3
    assert len({load(base).identity, load(base, adapter).identity, load(base, other).identity}) == 3


def test_a_directory_without_an_adapter_is_said(base):
    with pytest.raises(ModelError, match=r"base holds no adapter: it needs adapter_config\.json and adapter_model\.s"):
        resolve_checkpoint(str(base), str(base))


def test_an_adapter_in_the_model_s_place_is_said(adapter):
    with pytest.raises(ModelError, match="holds an adapter: give it as --adapter, and the model it was made for as"):
        resolve_checkpoint(str(adapter))


@pytest.mark.parametrize("reference", ["./nowhere", "/no/such/adapter", "nowhere", "some/deep/path"])
def test_a_path_to_nothing_is_said(base, reference):
    with pytest.raises(ModelError, match=r"There is no adapter at .*: no such directory"):
        resolve_checkpoint(str(base), reference)


@pytest.mark.parametrize("reference", ["my adapters/v 1", "out/v1--last", "C:/adapter"])
def test_a_path_to_nothing_that_can_be_no_name_on_the_hub_is_said(base, reference):
    with pytest.raises(ModelError, match=rf"^'{reference}' is neither a directory nor the id of an adapter on the h"):
        resolve_checkpoint(str(base), reference)


def test_a_name_that_the_hub_cannot_answer_for_is_said(base, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(ModelError, match="no directory nobody/nothing, and no adapter of that name"):
        resolve_checkpoint(str(base), "nobody/nothing")


def test_an_adapter_of_the_hub_is_found_in_its_cache(base, adapter, tmp_path, monkeypatch):
    snapshot = tmp_path / "hub/models--somebody--lora/snapshots/abc"
    shutil.copytree(adapter, snapshot)
    (snapshot.parents[1] / "refs").mkdir()
    (snapshot.parents[1] / "refs/main").write_text("abc")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    found = resolve_checkpoint(str(base), "somebody/lora")
    assert found.adapter == snapshot
    assert found.digest == resolve_checkpoint(str(base), str(adapter)).digest


@pytest.mark.parametrize("lacking", [CONFIG, WEIGHTS])
def test_of_an_adapter_that_is_cached_in_part_the_rest_is_downloaded(base, adapter, tmp_path, monkeypatch, lacking):
    snapshot = shutil.copytree(adapter, tmp_path / "snapshot")
    (snapshot / lacking).unlink()

    def download(reference, *, local_files_only=False, allow_patterns=()):
        for name in allow_patterns:
            shutil.copy(adapter / name, snapshot)
        return str(snapshot)

    monkeypatch.setattr("huggingface_hub.snapshot_download", download)
    found = resolve_checkpoint(str(base), "somebody/lora")
    assert found.adapter == snapshot
    assert found.digest == resolve_checkpoint(str(base), str(adapter)).digest


def test_pickled_weights_are_refused(base, adapter):
    (adapter / WEIGHTS).rename(adapter / "adapter_model.bin")
    with pytest.raises(ModelError, match=r"pickled, which may run any code\. It needs adapter_model\.safetensors"):
        resolve_checkpoint(str(base), str(adapter))


def test_missing_weights_are_said(base, adapter):
    (adapter / WEIGHTS).unlink()
    with pytest.raises(ModelError, match=r"it has no weights\. It needs adapter_model\.safetensors"):
        resolve_checkpoint(str(base), str(adapter))


def test_prompt_tuning_is_refused(base, tmp_path):
    tuned = get_peft_model(
        AutoModelForCausalLM.from_pretrained(base), PromptTuningConfig(task_type="CAUSAL_LM", num_virtual_tokens=4)
    )
    tuned.save_pretrained(tmp_path / "tuned")
    with pytest.raises(ModelError, match=r"is of type PROMPT_TUNING; only LoRA works, which changes a model's weights"):
        resolve_checkpoint(str(base), str(tmp_path / "tuned"))


def test_a_lora_that_wakes_at_a_token_is_refused(base, tmp_path):
    adapter = save_adapter(base, tmp_path / "adapter", target_modules=["q_proj"], alora_invocation_tokens=[9])
    with pytest.raises(ModelError, match="a LoRA with alora_invocation_tokens, which changes some tokens and not"):
        resolve_checkpoint(str(base), str(adapter))


@pytest.mark.parametrize("text", ["{", "[]", "{}"])
def test_a_config_that_says_nothing_is_refused(base, adapter, text):
    (adapter / CONFIG).write_text(text)
    with pytest.raises(ModelError, match=r"adapter_config\.json does not say what it is"):
        resolve_checkpoint(str(base), str(adapter))


@pytest.mark.parametrize(
    ("sizes", "words"),
    [
        ({"hidden_size": 32}, "its weights have other shapes than the model's"),
        ({"num_hidden_layers": 2}, "the model has no place for its weights .*layers.2.* and others"),
        ({"num_hidden_layers": 4}, "it has no weights for the model's .*layers.3.* and others"),
    ],
    ids=["width", "fewer layers", "more layers"],
)
def test_an_adapter_of_another_model_is_one_sentence_that_names_it(base, adapter, tmp_path, sizes, words):
    other = save_model(tmp_path / "wanted", **sizes)
    with pytest.raises(
        ModelError, match=rf"^The adapter .* does not fit the model: {words}\. It was made for .*base\.$"
    ):
        load(other, adapter)


def test_an_adapter_of_another_architecture(base, tmp_path, adapter):
    fields = json.loads((adapter / CONFIG).read_text())
    (adapter / CONFIG).write_text(json.dumps(fields | {"target_modules": ["c_attn"]}))
    with pytest.raises(ModelError, match=r"does not fit the model: Target modules .*c_attn.* not found in the base"):
        load(base, adapter)


def test_weights_that_are_none_are_a_sentence(base, adapter):
    (adapter / WEIGHTS).write_bytes(b"not weights at all")
    with pytest.raises(ModelError, match=r"^The adapter .* does not fit the model: [^\n]*$"):
        load(base, adapter)
