"""Texts as vectors: the states of their tokens behind the model's final norm, pooled and brought to length 1."""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.functional import normalize

from pipeline.inference.capacity import Capacity
from pipeline.inference.forward import Ids, row_states
from pipeline.inference.lanes import Lanes
from pipeline.inference.long_row import LongRow
from pipeline.inference.model import LanguageModel
from pipeline.inference.padded import padded_states
from pipeline.inference.stem import Stem
from pipeline.rows import Embed


def embed(model: LanguageModel, stem: Stem, prompts: Sequence[Ids], task: Embed, capacity: Capacity) -> Tensor:
    """fp32 vectors [prompts, width] on the CPU; not finite where the model's states were not.

    A mean is over the prompts' own tokens, and an encoder model reads nothing else: then nothing may lie in the stem.
    """

    def pooled(part: slice) -> Tensor:
        rows = prompts[part]
        if not model.causal:
            return torch.stack([_pool(of_row, task) for of_row in padded_states(model, rows)])
        packed = row_states(model, stem, range(len(prompts))[part], rows)
        return torch.stack([_pool(of_row, task) for of_row in torch.split(packed, list(map(len, rows)))])

    def in_steps(place: int) -> Tensor:
        ids = prompts[place]
        row = LongRow(model, stem, place, ids, Lanes(model.shape, 1, len(ids)))
        if task.pooling == "last":
            (*_, last) = capacity.steps(lambda step: row.states(step)[-1:], len(ids))
            return last
        return torch.stack(list(capacity.steps(lambda step: row.states(step).sum(0), len(ids)))).sum(0, True) / len(ids)

    parts = capacity.parts(prompts, pooled, in_steps if model.causal else None, alike=model.deterministic)
    return normalize(torch.cat(list(parts)), dim=-1).cpu()


def _pool(of_row: Tensor, task: Embed) -> Tensor:
    return of_row[-1] if task.pooling == "last" else of_row.mean(0)
