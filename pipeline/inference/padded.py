"""One forward of an encoder model: whole rows beside each other, padded to the longest, each token seeing its row."""

from collections.abc import Sequence

import torch
from torch import Tensor

from pipeline.inference.forward import Ids
from pipeline.inference.model import LanguageModel


def padded_states(model: LanguageModel, rows: Sequence[Ids]) -> list[Tensor]:
    """For each row the fp32 states [tokens, width] of its tokens. A deterministic model takes each row alone."""
    if model.deterministic and len(rows) > 1:
        return [alone for row in rows for alone in padded_states(model, [row])]
    longest, filler = max(map(len, rows)), model.network.config.pad_token_id or 0
    token_ids = torch.tensor([[*row, *[filler] * (longest - len(row))] for row in rows], device=model.device)
    mask = torch.tensor([[1] * len(row) + [0] * (longest - len(row)) for row in rows], device=model.device)
    states: Tensor = model.network(input_ids=token_ids, attention_mask=mask).last_hidden_state.float()
    return [of_row[: len(row)] for of_row, row in zip(states, rows, strict=True)]
