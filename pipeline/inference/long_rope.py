"""LongRoPE: rows of more tokens than short factors serve are rotated by long ones, from their first token on.

asked for   | position .. context             | context + position .. 2 * context      |      of a model's rotary module
rotated     | by the factors for short rows   | by those for long rows, at position    |
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad


class RotaryByRow(torch.nn.Module):
    """In the place of transformers' own one, which takes the factors for all rows by the longest that it sees.

    Of a prefix, or a row that is read in steps, no position tells how long its row is.
    """

    def __init__(self, rotary: torch.nn.Module, short_context: int, context: int) -> None:
        super().__init__()
        self._rotary, self._short_context, self._context = rotary, short_context, context

    def forward(self, states: Tensor, position_ids: Tensor) -> tuple[Tensor, Tensor]:
        """Cosines and sines [1, tokens, dim]"""
        is_long = position_ids >= self._context
        short = self._rotary(states, position_ids.masked_fill(is_long, 0))
        # Beside the first position that only long rows have, all others are taken for theirs.
        long = self._rotary(states, pad((position_ids - self._context).clamp(min=0), (0, 1), value=self._short_context))
        cosines, sines = (
            torch.where(is_long[..., None], of_long[:, :-1], of_short)
            for of_long, of_short in zip(long, short, strict=True)
        )
        return cosines, sines


def rotate_by_row(network: Any, short_context: int, context: int) -> None:
    """Once; a network may be adopted again with an adapter beside its weights."""
    base = network.base_model
    if not isinstance(base.rotary_emb, RotaryByRow):
        base.rotary_emb = RotaryByRow(base.rotary_emb, short_context, context)


@contextmanager
def every_row_long(network: Any) -> Iterator[None]:
    """Whatever rows the network itself is asked for are rotated as long ones, but for those of two tokens or fewer."""
    config = network.config
    short_context = config.original_max_position_embeddings
    try:
        _set_short_context(config, 2)
        yield
    finally:
        _set_short_context(config, short_context)


def _set_short_context(config: Any, tokens: int) -> None:
    """In both places, for transformers copies it from the first one to the second one now and then."""
    config.original_max_position_embeddings = config.rope_parameters["original_max_position_embeddings"] = tokens
