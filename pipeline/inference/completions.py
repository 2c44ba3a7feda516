"""What the engine found, as the completion of a row: answers written out, labels chosen, or why there is neither."""

import json
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from torch import Tensor

from pipeline.inference.capacity import is_out_of_memory
from pipeline.inference.ranks import Answer
from pipeline.inference.seats import Seat
from pipeline.inference.stopping import StopRule
from pipeline.inference.targets import Likelihood
from pipeline.rows import BatchTiming, Choose, Completion, LabelScore, Prompt, Sample, Status
from pipeline.timing import Stopwatch

#: From so likely on, one of several labels is taken to hold.
_HOLDS = 0.5
_NUMERIC = "The model's logits for this row are not finite numbers, so there is no honest answer."

_STUCK = (
    "The answer cannot go on: the vocabulary has no token for what the schema, expression or grammar asks next, or it "
    "asks for more than can be computed. Make it simpler."
)
_NO_ROOM = (
    "The device has no memory for this row, whose prompt has {tokens} tokens, also alone. Shorten its text, leave more "
    "room (a smaller PIPELINE_PREFIX_BYTES, fewer processes on the device), or take another --dtype or device."
)
#: Of a pair of surrogates, which no text may hold by itself.
_HALF = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Finished:
    """A batch that the device is done with; its texts may be written on another thread while the next one computes."""

    rows: tuple[Callable[[], Completion], ...]  #: what makes each prompt's completion, in no promised order
    timing: BatchTiming  #: of all that was done so far

    def written(self) -> tuple[list[Completion], BatchTiming]:
        """A completion for every prompt, in no promised order: join by row_id."""
        watch = Stopwatch()
        with watch.stage("detokenize"):
            completions = [complete() for complete in self.rows]
        output_tokens = sum(completion.output_tokens for completion in completions)
        seconds = self.timing.detokenize_s + watch.seconds["detokenize"]
        return completions, replace(self.timing, detokenize_s=seconds, output_tokens=output_tokens)


def finish(seat: Seat, complete: Callable[[Seat], Completion]) -> Completion:
    """A row whose text cannot be written costs no other row its own."""
    try:
        return complete(seat)
    except Exception as error:
        return broken(seat.prompt, seat.tokens, error)


def broken(prompt: Prompt, prompt_tokens: int, error: Exception) -> Completion:
    """Of a row that has no neighbour to blame."""
    reason = f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"
    completion = Completion(
        row_id=prompt.row_id,
        key=prompt.key,
        status=Status.ERROR,
        error_type="engine",
        error=f"The engine failed on this row, also alone: {reason}",
        prompt_tokens=prompt_tokens,
    )
    if is_out_of_memory(error):
        told = f"{_NO_ROOM.format(tokens=prompt_tokens)} ({reason})"
        return replace(completion, error_type="memory", error=told)
    return completion


def written(seat: Seat, answers: Sequence[Answer], rule: StopRule, *, parses: bool = False) -> Completion:
    """`answers` are all samples of the row. Where it `parses`, they are held to a JSON schema."""
    if any(answer.finish == "numeric" for answer in answers):
        return _failed(seat)
    if any(answer.finish == "stuck" for answer in answers):
        return replace(_failed(seat), error_type="constraint", error=_STUCK)
    samples = tuple(_sample(answer, rule) for answer in answers)
    cut = any(sample.finish_reason == "length" for sample in samples)
    return Completion(
        row_id=seat.prompt.row_id,
        key=seat.prompt.key,
        status=Status.TRUNCATED if cut else Status.OK,
        output=samples[0].output,
        finish_reason="length" if cut else "stop",
        prompt_tokens=seat.tokens,
        reused_tokens=seat.shared,
        output_tokens=sum(sample.output_tokens for sample in samples),
        samples=samples if len(samples) > 1 else (),
        logprobs=samples[0].logprobs,
        parsed=_parsed(answers[0], rule) if parses else None,
    )


def chosen(seat: Seat, probabilities: Tensor, task: Choose) -> Completion:
    """`probabilities` [labels], where several may hold each for itself."""
    if not probabilities.isfinite().all():
        return _failed(seat)
    scores = tuple(map(LabelScore, task.labels, probabilities.tolist()))
    likeliest_first = sorted(scores, key=lambda score: -score.probability)
    holding = tuple(score.label for score in likeliest_first if score.probability >= _HOLDS)
    best = likeliest_first[0]
    return Completion(
        row_id=seat.prompt.row_id,
        key=seat.prompt.key,
        status=Status.OK,
        output=", ".join(holding) if task.several else best.label,
        label=best.label,
        score=best.probability,
        finish_reason="choice",
        prompt_tokens=seat.tokens,
        reused_tokens=seat.shared,
        labels=holding if task.several else (),
        scores=scores,
    )


def scored(seat: Seat, found: Likelihood) -> Completion:
    logprob = math.fsum(found.logprobs)
    if not math.isfinite(logprob):
        return _failed(seat)
    return Completion(
        row_id=seat.prompt.row_id,
        key=seat.prompt.key,
        status=Status.OK,
        prompt_tokens=seat.tokens,
        reused_tokens=seat.shared,
        output_tokens=len(found.logprobs),
        logprobs=found.tokens,
        logprob=logprob,
        perplexity=math.exp(-logprob / len(found.logprobs)),
    )


def embedded(seat: Seat, vector: Tensor) -> Completion:
    if not vector.isfinite().all():
        return _failed(seat)
    return Completion(
        row_id=seat.prompt.row_id,
        key=seat.prompt.key,
        status=Status.OK,
        prompt_tokens=seat.tokens,
        reused_tokens=seat.shared,
        embedding=vector.numpy().astype("<f4").tobytes(),
    )


def _parsed(answer: Answer, rule: StopRule) -> str | None:
    """The answer as JSON, always spelled alike. None where it was cut, or is beyond what numbers and readers hold."""
    if answer.finish != "stop" or rule.cuts(answer.token_ids):
        return None
    try:
        value = json.loads(rule.text(answer.token_ids))
        text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    except (ValueError, RecursionError):
        return None
    return json.dumps(value) if _HALF.search(text) else text


def _sample(answer: Answer, rule: StopRule) -> Sample:
    assert answer.finish is not None
    finish = "stop" if rule.cuts(answer.token_ids) else answer.finish
    return Sample(rule.text(answer.token_ids), finish, len(answer.token_ids), tuple(answer.logprobs))


def _failed(seat: Seat) -> Completion:
    return Completion(
        row_id=seat.prompt.row_id,
        key=seat.prompt.key,
        status=Status.ERROR,
        error_type="numeric",
        error=_NUMERIC,
        prompt_tokens=seat.tokens,
        reused_tokens=seat.shared,
    )
