"""Scoring labels: the log-probability of each label's tokens after the prompt, all labels reading one row's keys."""

from collections.abc import Sequence
from functools import partial

import torch
from torch import Tensor

from pipeline.inference.attention import Level, Prefill
from pipeline.inference.capacity import Capacity
from pipeline.inference.forward import Ids, forward, prefill
from pipeline.inference.lanes import Lanes
from pipeline.inference.long_row import LongRow
from pipeline.inference.masks import length_mask
from pipeline.inference.model import LanguageModel
from pipeline.inference.padding import Padding, length_class
from pipeline.inference.stem import Stem

#: Logits of one forward at most, in numbers: 256 MB of fp32.
_LOGITS = 1 << 26


def score_choices(
    model: LanguageModel, stem: Stem, prompts: Sequence[Ids], label_ids: Sequence[Ids], capacity: Capacity
) -> Tensor:
    """fp32 log-probabilities [prompts, labels] on the CPU; not finite where the model's logits were not.

    A label of one token is read off the prefill; only longer ones need forwards of their own.
    """
    branches = [label for label in label_ids if len(label) > 1]
    first = torch.tensor([label[0] for label in label_ids], device=model.device)
    longer = torch.tensor([len(label) > 1 for label in label_ids], device=model.device)

    def together(part: slice) -> Tensor:
        rows, places = prompts[part], range(len(prompts))[part]
        lanes = Lanes(model.shape, len(rows), length_class(max(map(len, rows)))) if branches else None
        return scored(places, prefill(model, stem, places, rows, lanes), lanes)

    def in_steps(place: int) -> Tensor:
        ids = prompts[place]
        row = LongRow(model, stem, place, ids, Lanes(model.shape, 1, len(ids)))
        (*_, logits) = capacity.steps(row.read, len(ids))
        return scored([place], logits, row.lanes)

    def scored(places: Sequence[int], logits: Tensor, lanes: Lanes | None) -> Tensor:
        scores = _log_softmax_at(logits, first.expand(len(places), -1))
        if branches and lanes is not None:
            own = [prompts[place] for place in places]
            scores[:, longer] += _score_longer(model, stem, places, own, branches, lanes, capacity)
        return scores

    return torch.cat(list(capacity.parts(prompts, together, in_steps, alike=model.deterministic))).cpu()


def _score_longer(
    model: LanguageModel,
    stem: Stem,
    places: Sequence[int],
    prompts: Sequence[Ids],
    branches: Sequence[Ids],
    lanes: Lanes,
    capacity: Capacity,
) -> Tensor:
    """Log-probabilities [prompts, branches]: of some rows at once, or of one, as many branches as a forward takes."""
    inputs = [label[:-1] for label in branches]
    size = max(1, min(_LOGITS // model.vocab_size, capacity.tokens) // sum(map(len, inputs)))

    def score(rows: slice, some: slice) -> Tensor:
        return _score_branches(model, stem, places[rows], prompts[rows], branches[some], lanes, rows.start)

    def score_rows(rows: slice) -> Tensor:
        if rows.stop - rows.start > 1:
            return score(rows, slice(None))
        return torch.cat(list(capacity.parts(inputs, partial(score, rows))), dim=1)

    starts = range(0, len(prompts), size)
    return torch.cat([score_rows(slice(start, min(start + size, len(prompts)))) for start in starts])


def _score_branches(
    model: LanguageModel,
    stem: Stem,
    places: Sequence[int],
    prompts: Sequence[Ids],
    branches: Sequence[Ids],
    lanes: Lanes,
    first_lane: int,
) -> Tensor:
    """Log-probabilities [prompts, branches] of all tokens of a branch but its first."""
    inputs = [label[:-1] for label in branches]
    tokens = sum(map(len, inputs))
    counts = [tokens] * len(prompts)
    starts = [stem.lengths[place] for place in places]
    ends = [start + len(prompt) for start, prompt in zip(starts, prompts, strict=True)]
    logits = forward(
        model,
        torch.tensor([token for ids in inputs for token in ids] * len(prompts), device=model.device),
        torch.tensor([end + n for end in ends for ids in inputs for n in range(len(ids))], device=model.device),
        keep=0,
        levels=[*stem.levels(places, counts), _rows_as_level(model, prompts, starts, counts, lanes, first_lane)],
        own=[Prefill(model.kernel, Padding([len(ids) for ids in inputs] * len(prompts), model.device))],
    )
    targets = torch.tensor([token for label in branches for token in label[1:]], device=model.device)
    scores = _log_softmax_at(logits, targets.repeat(len(prompts))[:, None]).view(len(prompts), tokens)
    parts = torch.split(scores, [len(ids) for ids in inputs], dim=1)
    return torch.stack([part.sum(-1) for part in parts], dim=1)


def _rows_as_level(
    model: LanguageModel,
    prompts: Sequence[Ids],
    starts: Sequence[int],
    counts: Sequence[int],
    lanes: Lanes,
    first_lane: int,
) -> Level:
    """Each row's prompt, in its lane, is what its labels continue."""
    lengths = [len(prompt) for prompt in prompts]
    longest = lanes.capacity if model.deterministic else max(lengths)
    return Level(
        lanes,
        first_lane,
        starts=torch.tensor(starts, device=model.device),
        longest=longest,
        readers=Padding(counts, model.device),
        tokens=torch.arange(sum(counts), device=model.device),
        mask=length_mask(torch.tensor(lengths, device=model.device), longest),
    )


def _log_softmax_at(logits: Tensor, token_ids: Tensor) -> Tensor:
    """logits [n, vocab], token_ids [n, m] -> [n, m]; never a second tensor of the logits' size."""
    return logits.gather(-1, token_ids) - logits.logsumexp(-1, keepdim=True)
