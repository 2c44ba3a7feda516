import dataclasses
import shutil

import pytest
import torch
from transformers import AttentionInterface, AutoConfig, JambaConfig, MambaConfig, T5Config

from pipeline.errors import ModelError, TryAgain
from pipeline.inference import attention
from pipeline.inference.checkpoint import resolve_checkpoint
from pipeline.inference.engine import Engine
from pipeline.inference.loading import adopt, load_model, save_tokenizer
from pipeline.inference.prefix_store import PrefixStore
from pipeline.rows import Batch, Choose, Generate, Prompt

TINY = {
    "vocab_size": 64,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
}


def random_network(config):
    from transformers import AutoModelForCausalLM

    torch.manual_seed(0)
    return AutoModelForCausalLM.from_config(config, dtype=torch.float32).eval()


def test_a_directory_is_loaded_with_the_facts_that_batches_need(tiny_model):
    model = load_model(resolve_checkpoint(str(tiny_model)), "cpu")
    assert (model.context, model.vocab_size, model.stop_ids) == (512, 259, frozenset({258}))
    assert dataclasses.astuple(model.shape) == (2, 2, 8, torch.float32, torch.device("cpu"))
    assert model.kernel_name.endswith("torch flash attention for CPU")


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_half_precision_is_had_where_it_is_asked_for(tiny_model, dtype):
    model = load_model(resolve_checkpoint(str(tiny_model)), "cpu", dtype)
    assert model.shape.dtype is next(model.network.parameters()).dtype is getattr(torch, dtype)
    engine = Engine(model, PrefixStore(1 << 20), lambda ids: " ".join(map(str, ids)))
    prompts = tuple(Prompt(row, str(row), tuple(range(10, 20 + 9 * row))) for row in range(3))
    answers = engine.answer(Batch("job", 0, 1, 1, (40, 41, 42), prompts), Generate(4))[0]
    assert [len(answer.output.split()) for answer in answers] == [4, 4, 4]


def test_the_tokenizer_is_saved_once_for_each_model(tiny_model, tmp_path):
    checkpoint = resolve_checkpoint(str(tiny_model))
    directory = save_tokenizer(checkpoint, tmp_path)
    assert (directory / "tokenizer.json").is_file()
    (directory / "mark").touch()
    assert save_tokenizer(checkpoint, tmp_path) == directory
    assert (directory / "mark").is_file()
    assert [path.name for path in directory.parent.iterdir()] == [directory.name]


def test_another_tokenizer_is_saved_beside_it_and_other_weights_have_the_same(tiny_model, tmp_path):
    model = shutil.copytree(tiny_model, tmp_path / "model")
    first = save_tokenizer(resolve_checkpoint(str(model)), tmp_path / "home")
    shutil.copy(model / "model.safetensors", model / "more.safetensors")
    assert save_tokenizer(resolve_checkpoint(str(model)), tmp_path / "home") == first
    padding, text = " " * (2 << 20), (model / "tokenizer.json").read_text()
    for word in ("<|nad|>", "<|mad|>"):
        (model / "tokenizer.json").write_text(padding + text.replace("<|pad|>", word) + padding)
        other = save_tokenizer(resolve_checkpoint(str(model)), tmp_path / "home")
        assert word in (other / "tokenizer.json").read_text()


def test_a_copy_that_another_process_puts_there_meanwhile_is_kept(tiny_model, tmp_path):
    checkpoint = resolve_checkpoint(str(tiny_model))
    directory = tmp_path / "tokenizers" / checkpoint.tokenizer_digest
    directory.mkdir(parents=True)
    (directory / "mark").touch()
    assert save_tokenizer(checkpoint, tmp_path) == directory
    assert [path.name for path in directory.iterdir()] == ["mark"]
    assert [path.name for path in directory.parent.iterdir()] == [directory.name]


def test_a_tokenizer_that_cannot_be_saved_is_tried_again(tiny_model, tmp_path):
    (tmp_path / "tokenizers").write_text("a file in its place")
    with pytest.raises(TryAgain, match=r"The model's tokenizer cannot be kept in .*: .*Look whether the disk is full"):
        save_tokenizer(resolve_checkpoint(str(tiny_model)), tmp_path)


@pytest.mark.parametrize(
    ("config", "words"),
    [
        (JambaConfig(**TINY), "layers of type linear_attention, whose state cannot be shared between rows"),
        (T5Config(d_model=16, num_layers=1), "have an encoder; a decoder-only model"),
    ],
)
def test_models_that_would_not_be_exact_are_refused_before_their_weights_are_read(tmp_path, config, words):
    config.save_pretrained(tmp_path)
    (tmp_path / "model.safetensors").touch()
    with pytest.raises(ModelError, match=words):
        load_model(resolve_checkpoint(str(tmp_path)), "cpu")


def test_a_recurrent_model_is_refused(tmp_path):
    MambaConfig(hidden_size=16, num_hidden_layers=1, vocab_size=64).save_pretrained(tmp_path)
    (tmp_path / "model.safetensors").touch()
    with pytest.raises(ModelError, match="Models of type mamba have layers of type linear_attention"):
        load_model(resolve_checkpoint(str(tmp_path)), "cpu")


def test_attention_that_is_not_what_we_compute_is_found_out(llama, monkeypatch):
    """The proof at load compares logits, so it fails for any reason, such as scores scaled in another way."""
    inner = attention.attend

    def sharper(module, q, k, v, mask, scaling=None, **rest):
        return inner(module, q, k, v, mask, 2 * scaling, **rest)

    monkeypatch.setitem(type(AttentionInterface())._global_mapping, attention.registered(), sharper)
    with pytest.raises(ModelError, match=r"packed logits differ from the plain model's by \d"):
        adopt(llama)


def test_weights_that_are_none_are_a_sentence(tmp_path, tiny_model):
    AutoConfig.from_pretrained(tiny_model).save_pretrained(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"not weights at all")
    with pytest.raises(ModelError, match="cannot be loaded"):
        load_model(resolve_checkpoint(str(tmp_path)), "cpu")
    with pytest.raises(ModelError, match=r"tokenizer of .* cannot be loaded"):
        save_tokenizer(resolve_checkpoint(str(tmp_path)), tmp_path / "home")


@pytest.mark.skipif(torch.cuda.is_available(), reason="says what happens without a CUDA device")
def test_a_missing_device_is_said(tiny_model):
    with pytest.raises(
        ModelError, match=r"PIPELINE_DEVICE is cuda:0, which cannot be used here. Set it to cpu or auto"
    ):
        load_model(resolve_checkpoint(str(tiny_model)), "cuda:0")


SENTENCES = [
    "It broke.",
    "I love how quiet this kettle is, every single morning.",
    "ok",
    "Never again 😡",
    "値段の割に良い。",
]


@pytest.fixture(scope="module")
def real_batch(small_tokenizer):
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(small_tokenizer / "tokenizer.json"))
    prefix = tokenizer.encode("Review: Great value.\nSentiment: positive\n\nReview:").ids
    rows = tokenizer.encode_batch([f" {text}\nSentiment:" for text in SENTENCES])
    prompts = tuple(Prompt(place, str(place), tuple(row.ids)) for place, row in enumerate(rows))
    return Batch("job", 0, 1, 1, tuple(prefix), prompts)


def test_the_real_model_generates_the_tokens_of_transformers(small_model, real_batch):
    engine = Engine(small_model, PrefixStore(1 << 30), lambda ids: " ".join(map(str, ids)))
    answers = {c.row_id: c.output for c in engine.answer(real_batch, Generate(6))[0]}
    network = small_model.network
    network.set_attn_implementation("sdpa")
    for prompt in real_batch.prompts:
        ids = torch.tensor([real_batch.prefix + prompt.own_ids])
        out = network.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=6, do_sample=False)
        tokens = [token for token in out[0, ids.shape[1] :].tolist() if token not in small_model.stop_ids]
        assert answers[prompt.row_id] == " ".join(map(str, tokens))
    network.set_attn_implementation(attention.registered())


def test_the_real_model_scores_labels_as_a_whole_forward_does(small_model, real_batch, small_tokenizer):
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(small_tokenizer / "tokenizer.json"))
    names = ("positive", "negative", "somewhat in between")
    labels = tuple(tuple(tokenizer.encode(f" {name}").ids) for name in names)
    engine = Engine(small_model, PrefixStore(1 << 30), str)
    completions, _ = engine.answer(real_batch, Choose(names, labels))
    network = small_model.network
    network.set_attn_implementation("sdpa")
    for completion in completions:
        context = real_batch.prefix + real_batch.prompts[completion.row_id].own_ids
        scores = []
        for label in labels:
            with torch.no_grad():
                logits = network(torch.tensor([context + label])).logits[0].log_softmax(-1)
            scores.append(sum(logits[len(context) - 1 + place, token].item() for place, token in enumerate(label)))
        expected = torch.tensor(scores).softmax(-1)
        assert completion.score == pytest.approx(expected.max().item(), abs=1e-4)
        assert completion.label == names[int(expected.argmax())]
    network.set_attn_implementation(attention.registered())
