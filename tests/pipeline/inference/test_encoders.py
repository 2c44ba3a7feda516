"""Vectors of encoder models against transformers with sentence-transformers' pooling, and what they are not for."""

import json
import struct
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn.functional import normalize
from transformers import (
    AlbertConfig,
    AutoModel,
    BertConfig,
    ConvBertConfig,
    DistilBertConfig,
    ElectraConfig,
    FNetConfig,
    LlamaConfig,
    ModernBertConfig,
    MPNetConfig,
    RobertaConfig,
    T5Config,
)

from pipeline.errors import ModelError
from pipeline.inference.checkpoint import resolve_checkpoint
from pipeline.inference.determinism import deterministic
from pipeline.inference.engine import Engine
from pipeline.inference.loading import load_model, read_context
from pipeline.inference.prefix_store import PrefixStore
from pipeline.rows import Embed, Status
from tests.pipeline.inference.conftest import VOCAB

SIZES = {
    "vocab_size": VOCAB,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 128,
}
CONFIGS = {
    "bert": BertConfig(**SIZES),
    "roberta": RobertaConfig(**SIZES, pad_token_id=1),
    "mpnet": MPNetConfig(**SIZES, pad_token_id=1),
    "electra": ElectraConfig(**SIZES, embedding_size=16),
    "albert": AlbertConfig(**SIZES, embedding_size=16),
    "modernbert": ModernBertConfig(**SIZES, pad_token_id=0, local_attention=8),
    "distilbert": DistilBertConfig(vocab_size=VOCAB, dim=32, hidden_dim=48, n_layers=2, n_heads=4),
}
LENGTHS = [3, 40, 1, 9, 9, 60]
WIDE = {"hidden_size": 256, "intermediate_size": 1000}
MANY = [100, *range(1, 90, 7)]


def saved(config: Any, directory: Path, kind: Any = AutoModel, **edits: Any) -> str:
    torch.manual_seed(3)
    network = kind.from_config(config)
    with torch.no_grad():
        for weight in network.parameters():
            if weight.ndim >= 2:
                weight.mul_(8)
    network.save_pretrained(directory)
    return str(directory)


def loaded(directory, **options):
    return load_model(resolve_checkpoint(directory), "cpu", "float32", embeds=True, **options)


def embedded(model, batch, pooling="mean", **limits):
    completions, _ = Engine(model, PrefixStore(1 << 20), str, **limits).answer(batch, Embed(pooling))
    assert {completion.status for completion in completions} == {Status.OK}
    return {c.row_id: torch.tensor(struct.unpack(f"<{len(c.embedding) // 4}f", c.embedding)) for c in completions}


def plain(directory, rows, pooling):
    """transformers, padded, with the formulas of sentence-transformers' Pooling and Normalize."""
    network = AutoModel.from_pretrained(directory).eval()
    filler, longest = network.config.pad_token_id, max(map(len, rows))
    ids = torch.tensor([[*row, *[filler] * (longest - len(row))] for row in rows])
    mask = torch.tensor([[1] * len(row) + [0] * (longest - len(row)) for row in rows])
    with torch.no_grad():
        states = network(input_ids=ids, attention_mask=mask).last_hidden_state
    wide = mask.unsqueeze(-1).float()
    mean = (states * wide).sum(1) / wide.sum(1).clamp(min=1e-9)
    last = states[torch.arange(len(rows)), mask.sum(1) - 1]
    return normalize(mean if pooling == "mean" else last, p=2, dim=1)


@pytest.mark.parametrize("pooling", ["last", "mean"])
@pytest.mark.parametrize("kind", sorted(CONFIGS))
def test_vectors_are_those_of_transformers_in_any_company(tmp_path, make_batch, kind, pooling):
    directory, batch = saved(CONFIGS[kind], tmp_path / kind), make_batch(LENGTHS, prefix=2)
    model = loaded(directory)
    together = embedded(model, batch, pooling)
    in_small_forwards = embedded(model, batch, pooling, forward_tokens=12)
    expected = plain(directory, [batch.prefix + prompt.own_ids for prompt in batch.prompts], pooling)
    for prompt in batch.prompts:
        alone = embedded(model, replace(batch, prompts=(prompt,)), pooling)
        for found in (together, in_small_forwards, alone):
            assert (found[prompt.row_id] - expected[prompt.row_id]).abs().max() <= 1e-5


def test_a_deterministic_one_gives_the_same_bits_in_any_company(tmp_path, make_batch):
    model = deterministic(loaded(saved(BertConfig(**SIZES | WIDE), tmp_path / "bert")))
    batch = make_batch(MANY, prefix=3)
    together = embedded(model, batch)
    for prompt in batch.prompts:
        assert torch.equal(embedded(model, replace(batch, prompts=(prompt,)))[prompt.row_id], together[prompt.row_id])


@pytest.mark.parametrize(("kind", "context"), [("bert", 128), ("roberta", 126), ("mpnet", 126), ("distilbert", 512)])
def test_its_context_is_what_it_has_positions_for(tmp_path, make_batch, kind, context):
    directory = saved(CONFIGS[kind], tmp_path / kind)
    assert loaded(directory).context == read_context(resolve_checkpoint(directory), embeds=True) == context
    embedded(loaded(directory), make_batch([context], prefix=0))


def test_it_cannot_be_asked_to_write(tmp_path):
    checkpoint = resolve_checkpoint(saved(CONFIGS["bert"], tmp_path / "bert"))
    for asked in (lambda: load_model(checkpoint, "cpu"), lambda: read_context(checkpoint)):
        with pytest.raises(ModelError, match="Models of type bert read a text and write none: they can --embed"):
            asked()


def test_one_that_padding_would_change_is_refused(tmp_path):
    with pytest.raises(ModelError, match="Models of type convbert cannot embed texts of different lengths together"):
        loaded(saved(ConvBertConfig(**SIZES, embedding_size=16), tmp_path / "convbert"))


def test_one_without_attention_is_refused(tmp_path):
    config = FNetConfig(**{name: size for name, size in SIZES.items() if name != "num_attention_heads"})
    with pytest.raises(ModelError, match="Models of type fnet name no attention heads"):
        loaded(saved(config, tmp_path / "fnet"))


def test_a_model_with_both_halves_is_refused(tmp_path):
    config = T5Config(vocab_size=VOCAB, d_model=16, d_kv=4, d_ff=16, num_layers=1, num_heads=4)
    with pytest.raises(ModelError, match="Models of type t5 have an encoder"):
        loaded(saved(config, tmp_path / "t5"))


def test_layers_that_it_has_behind_its_pooling_are_not_left_out_in_silence(tmp_path):
    directory = saved(CONFIGS["bert"], tmp_path / "bert")
    kinds = ["Transformer", "Pooling", "Normalize", "Dense"]
    modules = [{"idx": n, "type": f"sentence_transformers.models.{kind}"} for n, kind in enumerate(kinds)]
    (tmp_path / "bert/modules.json").write_text(json.dumps(modules[:3]))
    assert not loaded(directory).causal
    (tmp_path / "bert/modules.json").write_text(json.dumps(modules))
    with pytest.raises(ModelError, match=r"computes more behind its last layer \(Dense, by its modules.json\)"):
        loaded(directory)


def test_a_decoder_without_a_head_embeds_and_writes_nothing(tmp_path, make_batch):
    config = LlamaConfig(**SIZES, tie_word_embeddings=False)
    directory, batch = saved(config, tmp_path / "llama"), make_batch(LENGTHS, prefix=2)
    expected = plain(directory, [batch.prefix + prompt.own_ids for prompt in batch.prompts[1:2]], "last")
    assert (embedded(loaded(directory), batch, "last")[1] - expected[0]).abs().max() <= 1e-5
    with pytest.raises(ModelError, match=r"is incomplete: it has no weights for lm_head\.weight"):
        load_model(resolve_checkpoint(directory), "cpu")


def test_weights_of_which_more_is_missing_are_refused(tmp_path):
    directory = saved(CONFIGS["bert"], tmp_path / "bert")
    config = json.loads((tmp_path / "bert/config.json").read_text())
    (tmp_path / "bert/config.json").write_text(json.dumps(config | {"num_hidden_layers": 3}))
    with pytest.raises(ModelError, match=r"is incomplete: it has no weights for encoder\.layer\.2"):
        loaded(directory)
