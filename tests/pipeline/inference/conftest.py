"""Tiny random models of several families, and rows for them."""

import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from transformers import (
    AutoModelForCausalLM,
    Gemma2Config,
    Gemma3TextConfig,
    GPT2Config,
    GPTNeoXConfig,
    GptOssConfig,
    LlamaConfig,
    MistralConfig,
    MixtralConfig,
    OPTConfig,
    PhiConfig,
    Qwen2Config,
    Qwen3Config,
    Qwen3MoeConfig,
)

from pipeline.rows import Batch, Prompt

VOCAB = 300
STOP_ID = 5
SIZES = {
    "vocab_size": VOCAB,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 256,
    "eos_token_id": STOP_ID,
}
_PLAIN_HEADS = SIZES | {"num_key_value_heads": 4}
_MOE = {"num_experts_per_tok": 2}
_WINDOW = 16
_HALF_SLIDES = ["sliding_attention", "full_attention", "sliding_attention"]
CONFIGS = {
    "llama": lambda: LlamaConfig(**SIZES),
    "qwen2": lambda: Qwen2Config(**SIZES),
    "qwen3": lambda: Qwen3Config(**SIZES, head_dim=32),
    "mistral": lambda: MistralConfig(**SIZES, sliding_window=_WINDOW),
    "gemma2": lambda: Gemma2Config(**SIZES, head_dim=16, sliding_window=_WINDOW, attn_logit_softcapping=1.0),
    "gemma3": lambda: Gemma3TextConfig(**SIZES, head_dim=16, sliding_window=_WINDOW, layer_types=_HALF_SLIDES),
    "phi": lambda: PhiConfig(**_PLAIN_HEADS),
    "gpt_neox": lambda: GPTNeoXConfig(**_PLAIN_HEADS),
    "gpt2": lambda: GPT2Config(
        vocab_size=VOCAB, n_embd=64, n_layer=3, n_head=4, n_positions=256, eos_token_id=STOP_ID, bos_token_id=STOP_ID
    ),
    "opt": lambda: OPTConfig(**_PLAIN_HEADS, ffn_dim=96, word_embed_proj_dim=64),
    "mixtral": lambda: MixtralConfig(**SIZES, **_MOE, num_local_experts=4),
    "qwen3_moe": lambda: Qwen3MoeConfig(**SIZES, **_MOE, head_dim=16, num_experts=4, moe_intermediate_size=48),
    "gpt_oss": lambda: GptOssConfig(
        **SIZES, **_MOE, head_dim=16, num_local_experts=4, sliding_window=_WINDOW, layer_types=_HALF_SLIDES
    ),
}


def network(config: Any) -> Any:
    """Of random weights, larger than is usual, so that attention is uneven and answers vary."""
    torch.manual_seed(0)
    made = AutoModelForCausalLM.from_config(config, dtype=torch.float32).eval()
    with torch.no_grad():
        for weight in made.parameters():
            if weight.ndim >= 2:
                weight.mul_(10)
    return made


def small_memory(network: Any, tokens: int) -> list[int]:
    """A device on which no forward of more tokens fits. Returns the widths of those tried, as they are."""
    tried: list[int] = []

    def check(_: Any, __: Any, given: dict[str, torch.Tensor]) -> None:
        tried.append(given["input_ids"].shape[1])
        if tried[-1] > tokens:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")

    network.base_model.register_forward_pre_hook(check, with_kwargs=True)
    return tried


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


@pytest.fixture
def dense() -> Callable[[Any], dict[str, torch.Tensor]]:
    """A network's weights as they were before they were laid out; those of a Conv1D are [out, in] then."""

    def read(of: Any) -> dict[str, torch.Tensor]:
        return {name: weight.to_dense() for name, weight in of.state_dict().items()}

    return read
