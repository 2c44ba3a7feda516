"""Quantised weights, in GGUF and by a package that transformers calls: answered as their rounded numbers would be."""

import importlib.util
import json

import gguf
import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, LlamaConfig

from pipeline.errors import ModelError
from pipeline.inference.checkpoint import resolve_checkpoint
from pipeline.inference.engine import Engine
from pipeline.inference.loading import load_model
from pipeline.inference.prefix_store import PrefixStore
from pipeline.rows import Generate

STOP_ID = 5
CONFIG = LlamaConfig(
    vocab_size=300,
    hidden_size=64,
    intermediate_size=96,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    max_position_embeddings=256,
    eos_token_id=STOP_ID,
)


@pytest.fixture
def network():
    torch.manual_seed(0)
    made = AutoModelForCausalLM.from_config(CONFIG).eval()
    with torch.no_grad():
        for weight in made.parameters():
            if weight.ndim >= 2:
                weight.mul_(10)
    return made


def outputs(model, batch):
    engine = Engine(model, PrefixStore(1 << 20), lambda ids: " ".join(map(str, ids)))
    return {answer.row_id: answer.output for answer in engine.answer(batch, Generate(10))[0]}


def plain_outputs(network, batch):
    """What transformers generates with these weights, a row at a time."""
    found = {}
    for prompt in batch.prompts:
        ids = torch.tensor([batch.prefix + prompt.own_ids])
        whole = network.generate(
            ids, attention_mask=torch.ones_like(ids), max_new_tokens=10, do_sample=False, pad_token_id=0
        )
        found[prompt.row_id] = " ".join(str(token) for token in whole[0, ids.shape[1] :].tolist() if token != STOP_ID)
    return found


#: llama.cpp's name for each weight of a layer. Its queries and keys are in another order, two and two.
LAYER = {
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
}
ENDS = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}
TURNED = {"self_attn.q_proj": CONFIG.num_attention_heads, "self_attn.k_proj": CONFIG.num_key_value_heads}


def turned(weight, heads):
    return weight.view(heads, 2, -1, weight.shape[1]).transpose(1, 2).reshape(weight.shape)


def write_gguf(path, network, kind):
    """Returns what the weights are once they are written so, by transformers' names."""
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(CONFIG.max_position_embeddings)
    writer.add_embedding_length(CONFIG.hidden_size)
    writer.add_feed_forward_length(CONFIG.intermediate_size)
    writer.add_block_count(CONFIG.num_hidden_layers)
    writer.add_head_count(CONFIG.num_attention_heads)
    writer.add_head_count_kv(CONFIG.num_key_value_heads)
    writer.add_layer_norm_rms_eps(CONFIG.rms_norm_eps)
    writer.add_rope_dimension_count(CONFIG.head_dim)
    writer.add_vocab_size(CONFIG.vocab_size)
    writer.add_eos_token_id(STOP_ID)
    written = {}
    for name, weight in network.state_dict().items():
        stem = name.removesuffix(".weight")
        layer, _, part = stem.removeprefix("model.layers.").partition(".")
        theirs = ENDS[stem] if stem in ENDS else f"blk.{layer}.{LAYER[part]}"
        numbers = (turned(weight, TURNED[part]) if part in TURNED else weight).numpy()
        of = kind if weight.ndim == 2 else gguf.GGMLQuantizationType.F32
        blocks = gguf.quantize(numbers, of)
        writer.add_tensor(f"{theirs}.weight", blocks, raw_dtype=of)
        kept = torch.from_numpy(gguf.dequantize(blocks, of).copy())
        written[name] = unturned(kept, TURNED[part]) if part in TURNED else kept
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return written


def unturned(weight, heads):
    return weight.view(heads, -1, 2, weight.shape[1]).transpose(1, 2).reshape(weight.shape)


@pytest.mark.parametrize("kind", ["F16", "Q8_0", "Q5_1", "Q4_0"])
def test_a_gguf_file_of_any_type_is_the_model_of_its_rounded_weights(dense, kind, network, tmp_path, make_batch):
    before = {name: weight.clone() for name, weight in network.state_dict().items()}
    written = write_gguf(tmp_path / "model.gguf", network, gguf.GGMLQuantizationType[kind])
    network.load_state_dict(written)
    model = load_model(resolve_checkpoint(str(tmp_path / "model.gguf")), "cpu")
    for name, weight in dense(model.network).items():
        torch.testing.assert_close(weight, written[name], atol=0, rtol=0)
    assert any(not torch.equal(before[name], weight) for name, weight in written.items())
    assert model.stop_ids == {STOP_ID}
    batch = make_batch([1, 20, 7])
    assert outputs(model, batch) == plain_outputs(network, batch)


def write_packed(path, network):
    """4 bits to a weight in compressed-tensors' format. Returns what the weights are then."""
    from compressed_tensors.compressors.pack_quantized.helpers import pack_to_int32

    network.save_pretrained(path)
    weights, rounded = {}, {}
    for name, weight in load_file(path / "model.safetensors").items():
        weights[name] = rounded[name] = weight
        if name.endswith("_proj.weight"):
            scale = weight.abs().amax(1, keepdim=True) / 7
            whole = (weight / scale).round().to(torch.int8)
            del weights[name]
            weights[f"{name}_packed"], weights[f"{name}_scale"] = pack_to_int32(whole, 4), scale
            weights[f"{name}_shape"], rounded[name] = torch.tensor(weight.shape), whole * scale
    save_file(weights, path / "model.safetensors", metadata={"format": "pt"})
    say_quantised(path, "compressed-tensors", format="pack-quantized", quantization_status="compressed", **_FOUR_BITS)
    return rounded


_FOUR_BITS = {
    "ignore": ["lm_head"],
    "config_groups": {
        "all": {
            "targets": ["Linear"],
            "weights": {"num_bits": 4, "type": "int", "symmetric": True, "strategy": "channel"},
        }
    },
}


def say_quantised(path, method, **how):
    fields = json.loads((path / "config.json").read_text())
    fields["quantization_config"] = {"quant_method": method} | how
    (path / "config.json").write_text(json.dumps(fields))


@pytest.fixture
def packed(network, tmp_path):
    pytest.importorskip("compressed_tensors", reason="needs compressed-tensors")
    network.load_state_dict(write_packed(tmp_path / "packed", network))
    return tmp_path / "packed"


def test_packed_weights_answer_as_their_rounded_numbers_do(packed, network, make_batch):
    model = load_model(resolve_checkpoint(str(packed)), "cpu")
    assert model.network.hf_quantizer is not None
    assert (model.shape.dtype, model.shape.dim) == (torch.float32, 16)
    batch = make_batch([1, 20, 7])
    assert outputs(model, batch) == plain_outputs(network, batch)


def test_half_precision_is_had_beside_quantised_weights(packed, make_batch):
    model = load_model(resolve_checkpoint(str(packed)), "cpu", "bfloat16")
    assert model.shape.dtype is torch.bfloat16
    assert all(outputs(model, make_batch([1, 20, 7])).values())


def test_an_adapter_stays_beside_quantised_weights(packed, network, tmp_path, make_batch):
    from peft import LoraConfig, get_peft_model

    adapted = get_peft_model(network, LoraConfig(target_modules=["q_proj", "up_proj"]))
    with torch.no_grad():
        for weight in adapted.parameters():
            if weight.requires_grad:
                weight.normal_(std=0.3)
    adapted.save_pretrained(tmp_path / "adapter")
    model = load_model(resolve_checkpoint(str(packed), str(tmp_path / "adapter")), "cpu")
    assert any("lora" in name for name, _ in model.network.named_modules())
    batch = make_batch([1, 20, 7])
    found = outputs(model, batch)
    assert found == plain_outputs(adapted, batch)
    assert found != outputs(load_model(resolve_checkpoint(str(packed)), "cpu"), batch)


@pytest.mark.parametrize(
    ("method", "package", "words"),
    [
        ("awq", "gptqmodel", "Please install it with `pip install gptqmodel`"),
        ("torchao", "torchao", "it needs the package torchao; `pip install torchao` brings it"),
    ],
)
def test_a_missing_package_is_named(method, package, words, network, tmp_path):
    if importlib.util.find_spec(package):
        pytest.skip(f"{package} is installed")
    network.save_pretrained(tmp_path)
    say_quantised(tmp_path, method, bits=4, group_size=32, quant_type={"default": {"_type": "Int8WeightOnlyConfig"}})
    with pytest.raises(ModelError, match=rf"^The model .* cannot be loaded: [^\n]*{words}"):
        load_model(resolve_checkpoint(str(tmp_path)), "cpu")
