"""Inside stage 5: the next token of each row, picked from its logits: the likeliest one, or one drawn at random."""

from collections.abc import Callable, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import pad
from transformers.generation.logits_process import (
    MinPLogitsWarper,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
)

from pipeline.constraints import Guide
from pipeline.inference.numbers import Numbers
from pipeline.inference.penalties import Penalty, frequency, presence, repetition
from pipeline.rows import Sampling

#: A processor of transformers: token ids, which those used here do not look at, and scores -> scores.
Warper = Callable[[Tensor | None, Tensor], Tensor]

#: Tokens among which the likeliest ones of a row are looked for first.
_CANDIDATES = 1024


class Picker:
    """Picks for samples of the rows of one batch, and remembers what their next tokens depend on.

    A sample is known by its place among all of them; it may come and go between steps.
    """

    def __init__(
        self,
        sampling: Sampling,
        rows: Sequence[tuple[int, int]],
        histories: Sequence[Sequence[int]],
        guide: Guide | None = None,
    ) -> None:
        """`rows` are (row_id, sample_no); `histories` all token ids of each one's prompt, shared ones included."""
        self._guide = guide
        self._penalties = _penalties(sampling, histories)
        self._warpers = _warpers(sampling)
        self._numbers = Numbers(sampling.seed, rows) if sampling.temperature > 0 else None

    def choose(self, places: Sequence[int], logits: Tensor) -> Tensor:
        """logits [rows, vocab], of distinct places -> token ids [rows].

        -1 where the logits are not finite numbers, or where nothing is allowed.
        Waits for nothing that the device has still to compute. While the places stay the same, nothing is brought to it
        but what a guide allows and, for many steps at once, random numbers.
        """
        scores = logits
        for penalty in self._penalties:
            scores = penalty.lower(places, scores)
        best, token_ids = scores.max(-1)
        if self._guide is not None:
            scores = only(scores, self._guide.allowed(places))
            best_allowed, token_ids = scores.max(-1)
            best = best + best_allowed  # finite where both are
        if self._numbers is not None:
            token_ids = draw(self._warp(scores), self._numbers.next(places, scores.device))
        token_ids = token_ids.masked_fill(~best.isfinite(), -1)
        for penalty in self._penalties:
            penalty.add(places, token_ids)
        return token_ids

    def pass_over(self, place: int, token_ids: Sequence[int]) -> None:
        """These came next without a choice. What follows is picked as it would be behind one."""
        if self._numbers is not None:
            self._numbers.skip(place, len(token_ids))
        for token in token_ids:
            for penalty in self._penalties:
                penalty.add([place], torch.tensor([token]))

    def _warp(self, scores: Tensor) -> Tensor:
        for warper in self._warpers:
            scores = warper(None, scores)
        return scores


def draw(scores: Tensor, numbers: Tensor) -> Tensor:
    """Token ids [rows] by inverse transform sampling; scores [rows, vocab], numbers [rows] in [0, 1).

    Tokens are summed up in the order of the vocabulary, in which scores that change in their last digit, as they may
    with the batch, move no token far; and in double precision, so that the last of them still count.
    """
    cumulative = scores.softmax(-1).cumsum(-1, dtype=torch.double)
    total = cumulative[:, -1:]
    # 1 - number is above 0 and at most 1, so that the sum is crossed at a token that has a probability.
    crossing = (1 - numbers[:, None]) * total
    return torch.searchsorted(cumulative, crossing).squeeze(-1)


def only(scores: Tensor, bits: NDArray[np.int32]) -> Tensor:
    """scores [rows, vocab] -> the same, -inf but for those tokens whose bits are set; bits [rows, words]."""
    words = torch.from_numpy(bits).to(scores.device, non_blocking=True)
    allowed = (words[:, :, None] >> torch.arange(32, device=scores.device) & 1).flatten(1).bool()
    # A model may have scores for more tokens than its tokenizer knows.
    allowed = pad(allowed, (0, max(0, scores.shape[-1] - allowed.shape[-1])))[:, : scores.shape[-1]]
    return scores.masked_fill(~allowed, -torch.inf)


def keep_top_p(scores: Tensor, top_p: float, candidates: int = _CANDIDATES) -> Tensor:
    """As transformers' TopPLogitsWarper, but that equals of the least token kept are kept too.

    That one sorts the whole vocabulary, which takes a CPU several times as long; a GPU is quick at it, and would have
    to be waited for to learn whether `candidates` are enough.
    """
    shares, vocab_size = scores.softmax(-1), scores.shape[-1]
    few = min(candidates, vocab_size) if scores.device.type == "cpu" else vocab_size
    likeliest = shares.topk(few).values
    before = likeliest.cumsum(-1) - likeliest
    if few < vocab_size and (before[:, -1] < top_p).any():
        return keep_top_p(scores, top_p, vocab_size)
    kept = (before < top_p).sum(-1, keepdim=True)
    least = likeliest.gather(-1, (kept - 1).clamp(min=0))
    return scores.masked_fill(shares < least, -torch.inf)


def _penalties(sampling: Sampling, histories: Sequence[Sequence[int]]) -> list[Penalty]:
    penalties = []
    if sampling.repetition_penalty != 1:
        penalties.append(Penalty(repetition(sampling.repetition_penalty), histories))
    if sampling.presence_penalty != 0:
        penalties.append(Penalty(presence(sampling.presence_penalty), [()] * len(histories)))
    if sampling.frequency_penalty != 0:
        penalties.append(Penalty(frequency(sampling.frequency_penalty), [()] * len(histories)))
    return penalties


def _warpers(sampling: Sampling) -> list[Warper]:
    """In the order in which transformers' `generate` applies them."""
    warpers: list[Warper] = []
    if sampling.temperature > 0:
        warpers.append(TemperatureLogitsWarper(sampling.temperature))
    if sampling.top_k is not None:
        warpers.append(TopKLogitsWarper(sampling.top_k))
    if sampling.top_p is not None and sampling.top_p < 1:
        top_p = sampling.top_p
        warpers.append(lambda _, scores: keep_top_p(scores, top_p))
    if sampling.min_p is not None:
        warpers.append(MinPLogitsWarper(sampling.min_p))
    return warpers
