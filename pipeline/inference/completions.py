"""What the engine found, as the completion of a row: answers written out, labels chosen, or why there is neither."""

from collections.abc import Sequence

from torch import Tensor

from pipeline.inference.ranks import Answer
from pipeline.inference.seats import Seat
from pipeline.inference.stopping import StopRule
from pipeline.rows import Completion, Sample, Status

_NUMERIC = "The model's logits for this row are not finite numbers, so there is no honest answer."


def written(seat: Seat, answers: Sequence[Answer], rule: StopRule) -> Completion:
    """`answers` are all samples of the row."""
    if any(answer.finish == "numeric" for answer in answers):
        return _failed(seat)
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
    )


def chosen(seat: Seat, scores: Tensor, labels: Sequence[str]) -> Completion:
    """`scores` are the log-probabilities of the labels."""
    if not scores.isfinite().all():
        return _failed(seat)
    probabilities = scores.double().softmax(-1)
    best = int(probabilities.argmax())
    return Completion(
        row_id=seat.prompt.row_id,
        key=seat.prompt.key,
        status=Status.OK,
        output=labels[best],
        label=labels[best],
        score=float(probabilities[best]),
        finish_reason="choice",
        prompt_tokens=seat.tokens,
        reused_tokens=seat.shared,
    )


def _sample(answer: Answer, rule: StopRule) -> Sample:
    assert answer.finish is not None
    return Sample(rule.text(answer.token_ids), answer.finish, len(answer.token_ids), tuple(answer.logprobs))


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
