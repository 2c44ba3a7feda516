"""A language model in memory: its weights, and the facts about them that batches need."""

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from pipeline.inference.attention import Packed
from pipeline.inference.families import context_of, short_context_of
from pipeline.inference.kernels.kernel import DecodeKernel, Kernel
from pipeline.inference.kernels.selection import choose_kernel
from pipeline.inference.lanes import LaneShape


@dataclass(frozen=True, slots=True)
class LanguageModel:
    """`network` is a transformers model as it is, but for its attention function."""

    network: Any
    shape: LaneShape
    kernel: Kernel
    decode_kernel: DecodeKernel
    kernel_name: str
    context: int  #: tokens, prompt and answer together
    short_context: int  #: of these, tokens of a row up to which it is short; all but for LongRoPE
    vocab_size: int
    stop_ids: frozenset[int]
    causal: bool = True  #: no token sees a later one; otherwise the model is an encoder, and can embed
    deterministic: bool = False  #: a row's numbers depend on the row alone, at the price of some padding
    stretched: bool = False  #: its rows are long, and rotated by other factors than short ones
    identity: str = ""  #: names its weights, with what was merged into them; empty where they are of unknown origin

    @property
    def device(self) -> torch.device:
        return self.shape.device

    @property
    def room(self) -> int:
        """Tokens of a row, prompt and answer together, until it ends, or else is long and must be read anew.

        The last one is not read any more.
        """
        return self.context if self.stretched else min(self.context, self.short_context + 1)

    def reading(self, tokens: int) -> "LanguageModel":
        """As it reads a row of so many tokens."""
        return replace(self, stretched=tokens > self.short_context)

    def logits(self, token_ids: Tensor, positions: Tensor, keep: Tensor | int, packed: Packed) -> Tensor:
        """token_ids, positions [tokens] -> fp32 logits [kept, vocab] after the tokens that `keep` counts, 0 for all."""
        output = self.network(
            input_ids=token_ids[None],
            position_ids=self._rotated(positions)[None],
            logits_to_keep=keep,
            use_cache=False,
            packed=packed,
        )
        logits: Tensor = output.logits[0].float()
        return logits

    def states(self, token_ids: Tensor, positions: Tensor, packed: Packed) -> Tensor:
        """token_ids, positions [tokens] -> fp32 [tokens, width] behind the final norm, where the head would read."""
        output = self.network.base_model(
            input_ids=token_ids[None], position_ids=self._rotated(positions)[None], use_cache=False, packed=packed
        )
        found: Tensor = output.last_hidden_state[0].float()
        return found

    def _rotated(self, positions: Tensor) -> Tensor:
        """As long_rope.py has them."""
        return positions + self.context if self.stretched else positions


def describe(network: Any, *, causal: bool = True) -> LanguageModel:
    """The facts, read off a transformers model and its configuration."""
    config, embedding = network.config, network.get_input_embeddings().weight
    heads = config.num_attention_heads
    choice = choose_kernel(embedding.device, embedding.dtype)
    return LanguageModel(
        network=network,
        shape=LaneShape(
            layers=config.num_hidden_layers,
            kv_heads=getattr(config, "num_key_value_heads", None) or heads,
            dim=getattr(config, "head_dim", None) or config.hidden_size // heads,
            dtype=embedding.dtype,
            device=embedding.device,
        ),
        kernel=choice.kernel,
        decode_kernel=choice.decode,
        kernel_name=choice.name,
        context=context_of(config),
        short_context=short_context_of(config),
        vocab_size=embedding.shape[0],
        stop_ids=_stop_ids(network) if causal else frozenset(),
        causal=causal,
    )


def _stop_ids(network: Any) -> frozenset[int]:
    configured = network.generation_config.eos_token_id
    if configured is None:
        configured = network.config.eos_token_id
    return frozenset() if configured is None else frozenset([configured] if isinstance(configured, int) else configured)
