"""Tiny random models of several families, and rows for them."""

import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM, GPT2Config, LlamaConfig, Qwen2Config, Qwen3Config

from pipeline.rows import Batch, Prompt

VOCAB = 300
STOP_ID = 5
_COMMON = {
    "vocab_size": VOCAB,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 256,
    "eos_token_id": STOP_ID,
}
CONFIGS = {
    "llama": lambda: LlamaConfig(**_COMMON),
    "qwen2": lambda: Qwen2Config(**_COMMON),
    "qwen3": lambda: Qwen3Config(**_COMMON, head_dim=32),
    "gpt2": lambda: GPT2Config(
        vocab_size=VOCAB, n_embd=64, n_layer=3, n_head=4, n_positions=256, eos_token_id=STOP_ID, bos_token_id=STOP_ID
    ),
}


def network(config: Any) -> Any:
    torch.manual_seed(0)
    return AutoModelForCausalLM.from_config(config, dtype=torch.float32).eval()


@pytest.fixture(params=sorted(CONFIGS))
def family(request: pytest.FixtureRequest) -> Any:
    """A fresh random network of each family in turn."""
    return network(CONFIGS[request.param]())


@pytest.fixture
def llama() -> Any:
    return network(CONFIGS["llama"]())


@pytest.fixture
def make_batch() -> Callable[..., Batch]:
    """Rows of the given lengths, random but the same every time, after a prefix of `prefix` tokens."""

    def make(lengths: Sequence[int], prefix: int = 40, seed: int = 1) -> Batch:
        numbers = random.Random(seed)
        ids = lambda count: tuple(numbers.randrange(STOP_ID + 1, VOCAB) for _ in range(count))  # noqa: E731
        head = ids(prefix)
        prompts = tuple(Prompt(row_id, f"k{row_id}", ids(length)) for row_id, length in enumerate(lengths))
        return Batch("job", 0, 1, 1, head, prompts)

    return make
