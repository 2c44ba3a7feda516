"""Answers for the rows of a batch, a token at a time: packed prefill, then one step for all rows still running."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from pipeline.inference.attention import Decode
from pipeline.inference.forward import Ids, chunks, forward, prefill
from pipeline.inference.lanes import Lanes
from pipeline.inference.masks import length_mask
from pipeline.inference.model import LanguageModel
from pipeline.inference.sampling import Picker
from pipeline.inference.stem import Stem
from pipeline.inference.stopping import StopRule
from pipeline.timing import Stopwatch

#: Lanes grow by so many tokens; most answers end long before max_tokens.
_ROOM = 64
#: Keys and values of all lanes at most; rows beyond that wait for the next round.
_LANE_BYTES = 2 << 30


@dataclass(slots=True)
class Answer:
    """What one row has generated so far; `finish` is set when it stops: stop, length or numeric."""

    place: int  #: among the rows of the stem
    prompt: Ids
    limit: int  #: tokens it may generate
    token_ids: list[int] = field(default_factory=list)
    finish: str | None = None

    @property
    def length(self) -> int:
        """Tokens in its lane before the next one: its last token has no key yet."""
        return len(self.prompt) + len(self.token_ids) - 1


def generate(
    model: LanguageModel,
    stem: Stem,
    prompts: Sequence[Ids],
    limits: Sequence[int],
    rule: StopRule,
    picker: Picker,
    watch: Stopwatch,
) -> list[Answer]:
    """Answers in the order of `prompts`, which is the picker's too; neighbours of like length waste least."""
    answers = [Answer(place, *row) for place, row in enumerate(zip(prompts, limits, strict=True))]
    for part in _rounds(answers, _LANE_BYTES // model.shape.bytes_per_token()):
        _run(model, stem, answers[part], rule, picker, watch)
    return answers


def _rounds(answers: Sequence[Answer], lane_tokens: int) -> Iterator[slice]:
    """Consecutive rows whose lanes fit even if every answer takes all that it may; at least one row a round."""
    start, longest = 0, 0
    for place, answer in enumerate(answers):
        longest = max(longest, len(answer.prompt) + answer.limit)
        if place > start and longest * (place - start + 1) > lane_tokens:
            yield slice(start, place)
            start, longest = place, len(answer.prompt) + answer.limit
    yield slice(start, len(answers))


def _run(
    model: LanguageModel, stem: Stem, answers: list[Answer], rule: StopRule, picker: Picker, watch: Stopwatch
) -> None:
    prompts = [answer.prompt for answer in answers]
    lanes = Lanes(model.shape, len(prompts), max(map(len, prompts)) + _ROOM)
    with watch.stage("prefill"):
        places = [answer.place for answer in answers]
        logits = [prefill(model, stem, places[part], prompts[part], lanes, part.start) for part in chunks(prompts)]
        _extend(answers, torch.cat(logits), rule, picker)
    with watch.stage("decode"):
        running = _close_ranks(answers, lanes)
        while running:
            _extend(running, _step(model, stem, running, lanes), rule, picker)
            running = _close_ranks(running, lanes)


def _step(model: LanguageModel, stem: Stem, running: list[Answer], lanes: Lanes) -> Tensor:
    """Logits [running, vocab] after each row's newest token; row i of `running` is lane i."""
    lengths = torch.tensor([answer.length for answer in running], device=model.device)
    longest = max(answer.length for answer in running) + 1
    if longest > lanes.capacity:
        lanes.grow(longest + _ROOM)
    return forward(
        model,
        token_ids=[answer.token_ids[-1] for answer in running],
        positions=[stem.lengths[answer.place] + answer.length for answer in running],
        keep=range(len(running)),
        levels=stem.levels([answer.place for answer in running], [1] * len(running)),
        own=Decode(lanes, lengths, length_mask(lengths + 1, longest)),
    )


def _extend(running: list[Answer], logits: Tensor, rule: StopRule, picker: Picker) -> None:
    picked = picker.pick([answer.place for answer in running], logits)
    for answer, token in zip(running, picked, strict=True):
        if token is None:
            answer.finish = "numeric"
            continue
        answer.token_ids.append(token)
        if rule.stops(answer.token_ids):
            answer.finish = "stop"
        elif len(answer.token_ids) >= answer.limit:
            answer.finish = "length"


def _close_ranks(running: list[Answer], lanes: Lanes) -> list[Answer]:
    """Finished rows leave; the last rows take their lanes, so that running rows stay lanes 0, 1, 2 ..."""
    left = list(running)
    for lane in reversed(range(len(left))):
        if left[lane].finish is not None:
            last = left.pop()
            if lane < len(left):
                lanes.move(len(left), lane)
                left[lane] = last
    return left
