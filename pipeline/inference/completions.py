"""What the engine found, as the completion of a row: answers written out, labels chosen, or why there is neither."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from torch import Tensor

from pipeline.inference.capacity import is_out_of_memory
from pipeline.inference.ranks import Answer
from pipeline.inference.seats import Seat
from pipeline.inference.stopping import StopRule
from pipeline.inference.targets import Likelihood
from pipeline.json_schema import AnswerSchema
from pipeline.rows import BatchTiming, Choose, Completion, Generate, LabelScore, Prompt, Sample, Status
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


def written(seat: Seat, answers: Sequence[Answer], rule: StopRule, task: Generate) -> Completion:
    """`answers` are all samples of the row. Where it is held to a JSON schema, each whole one is."""
    if any(answer.finish == "numeric" for answer in answers):
        return _failed(seat)
    if any(answer.finish == "stuck" for answer in answers):
        return replace(_failed(seat), error_type="constraint", error=_STUCK)
    samples = tuple(_sample(answer, rule, is_held=task.constraint is not None) for answer in answers)
    reasons = {sample.finish_reason for sample in samples}
    completion = Completion(
        row_id=seat.prompt.row_id,
        key=seat.prompt.key,
        status=Status.OK if reasons == {"stop"} else Status.TRUNCATED,
        output=samples[0].output,
        finish_reason=next(reason for reason in ("length", "cut", "stop") if reason in reasons),
        prompt_tokens=seat.tokens,
        reused_tokens=seat.shared,
        output_tokens=sum(sample.output_tokens for sample in samples),
        samples=samples if len(samples) > 1 else (),
        logprobs=samples[0].logprobs,
    )
    if task.constraint is None or task.constraint.kind != "json_schema":
        return completion
    return _parsed(completion, samples, AnswerSchema(task.constraint.text))


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


def _parsed(completion: Completion, samples: Sequence[Sample], schema: AnswerSchema) -> Completion:
    """With the first sample as JSON where it is whole, or as an error where a whole one is not of the schema."""
    try:
        parsed = [schema.parsed(sample.output) if sample.finish_reason == "stop" else None for sample in samples]
    except ValueError as error:
        return replace(
            completion, status=Status.ERROR, error_type="schema", error=f"The answer is not of the schema: {error}."
        )
    return replace(completion, parsed=parsed[0])


def _sample(answer: Answer, rule: StopRule, *, is_held: bool) -> Sample:
    assert answer.finish is not None
    finish = ("cut" if is_held else "stop") if rule.cuts(answer.token_ids) else answer.finish
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
