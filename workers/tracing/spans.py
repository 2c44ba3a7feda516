"""A batch's way as spans, made of what the ledger and the worker know of it. Imports no OpenTelemetry.

A trace is a batch; its root is as long as the batch's whole way, and all other spans lie flat below it, in this order:

    cut         its shard, by whoever submitted the job     | once, by whoever records the batch: all batches of a
    encode      its shard, by a tokenizer                   | shard show these two, so that each trace is whole
    enqueue     encoded, and waiting for a place in the queue; of a fleet's first attempt
    queue       in the broker; without one, in the ledger
    take in     claimed, and its prompts read
    compute     the model; `pipeline.*_s` are its parts, which take turns as rows come and go, and so are no spans
    detokenize  answers become texts
    record      answers become results

What is between two spans is waiting. Each attempt has its own spans from the queue on (`pipeline.attempt`): one that
died shows that it took the batch in, one that came too late that it was refused. A batch that killed its workers is
halved, and each half is a batch with a trace of its own, linked to that of the whole.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from pipeline.answering import Closed
from pipeline.rows import Status
from pipeline.store.moments import Moments
from pipeline.store.records import Claim

Facts = Mapping[str, str | int | float]


@dataclass(frozen=True, slots=True)
class Span:
    """Times are seconds since the epoch; facts are told under `pipeline.`."""

    name: str
    begun_at: float
    ended_at: float
    facts: Facts


def of_waiting(claim: Claim, moments: Moments, taken_at: float) -> list[Span]:
    """Until the attempt could begin; `moments` are those of its claim."""
    about, spans = _attempt(claim, moments), []
    claimed_at = moments.claimed_at or taken_at
    enqueued_at = moments.enqueued_at or claimed_at
    was_sent, is_first = enqueued_at < claimed_at, claim.attempts == 1
    if is_first and was_sent:
        spans.append(Span("enqueue", moments.created_at, enqueued_at, about))
    # Nobody knows since when a batch that was given back had waited for the second time.
    if is_first or was_sent:
        spans.append(Span("queue", enqueued_at if was_sent else moments.created_at, claimed_at, about))
    return [*spans, Span("take in", claimed_at, taken_at, about)]


def of_answers(closed: Closed, moments: Moments) -> list[Span]:
    """From the device to the ledger."""
    answered = closed.answered
    about = _attempt(answered.claim, moments)
    computed: Facts = {"device": answered.device, **asdict(closed.timing)}
    return [
        Span("compute", answered.begun_at, answered.ended_at, {**about, **computed}),
        Span("detokenize", closed.writing_at, closed.written_at, about),
        Span("record", closed.written_at, closed.closed_at, {**about, **_outcome(closed)}),
    ]


def of_shard(claim: Claim, moments: Moments) -> list[Span]:
    about: Facts = {**_batch(claim, moments), "rows": moments.shard_rows}
    spans = []
    if moments.cut_at is not None:
        spans.append(Span("cut", moments.cut_at - moments.cut_s, moments.cut_at, about))
    if moments.encoded_at is not None:
        encoded: Facts = {**about, "prompt_tokens": moments.prompt_tokens}
        spans.append(Span("encode", moments.encoded_at - moments.encode_s, moments.encoded_at, encoded))
    return spans


def root(closed: Closed, moments: Moments) -> Span:
    """From the job's submission on."""
    tokens = {name: count for name, count in asdict(closed.timing).items() if name.endswith("_tokens")}
    attempt = _attempt(closed.answered.claim, moments)
    facts: Facts = {**attempt, **tokens, **_outcome(closed), "crashes": moments.crashes}
    return Span("batch", moments.submitted_at, closed.closed_at, facts)


def _batch(claim: Claim, moments: Moments) -> Facts:
    return {"job": moments.job, "job_id": claim.job_id, "shard": claim.shard_no, "batch": claim.batch_no}


def _attempt(claim: Claim, moments: Moments) -> Facts:
    mine: Facts = {"rows": len(claim.row_ids), "attempt": claim.attempts, "worker": claim.owner}
    return {**_batch(claim, moments), **mine}


def _outcome(closed: Closed) -> Facts:
    counts = Counter(completion.status for completion in closed.completions)
    ended = {f"rows_{status}": counts[status] for status in (Status.OK, Status.TRUNCATED, Status.ERROR)}
    return {"outcome": "recorded" if closed.recorded else "too late", **ended}
