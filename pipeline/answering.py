"""Stage 5 of one job: the prompts of a claimed batch, or its rows once more, become answers by a warm model."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from pipeline.encoding import Encoding
from pipeline.identity import Identities
from pipeline.inference.bisection import run_bisecting
from pipeline.inference.completions import Finished
from pipeline.inference.engine import Engine
from pipeline.inference.prefix_store import PrefixStore
from pipeline.means import Means
from pipeline.messages import Payload
from pipeline.rows import Batch, BatchTiming, Completion, Prompt, Status
from pipeline.settings import Settings
from pipeline.store.records import Claim, ShardRecord
from pipeline.timing import Stopwatch
from pipeline.twins import for_each_row


@dataclass(frozen=True, slots=True)
class Answered:
    """A batch that the device is done with."""

    claim: Claim
    device: str
    finished: Finished
    failures: tuple[Completion, ...]  #: of rows that have no prompt
    payload: Payload
    identity: Identities  #: of answers that would be the same again
    begun_at: float
    ended_at: float

    def written(self) -> tuple[list[Completion], BatchTiming]:
        """A completion for each of the claim's rows; may be called on another thread than the one that computes."""
        computed, timing = self.finished.written()
        prompts = {prompt.row_id: prompt for prompt in self.payload.prompts}
        identity_of = self.identity.behind(self.payload.prefix)
        by_prompt = [_rows(prompts[completion.row_id], completion, identity_of) for completion in computed]
        copied = sum(copy.reused_tokens for _, *copies in by_prompt for copy in copies)
        told = replace(timing, reused_tokens=timing.reused_tokens + copied)
        return [*chain.from_iterable(by_prompt), *self.failures], told


def _rows(prompt: Prompt, completion: Completion, identity_of: Callable[[Prompt], bytes | None]) -> list[Completion]:
    own, *copies = for_each_row(prompt, completion)
    if completion.status is Status.ERROR:
        return [own, *copies]
    return [replace(own, prompt_hash=identity_of(prompt)), *copies]


@dataclass(frozen=True, slots=True)
class Closed:
    """An attempt at a batch that came to its end. Times are seconds since the epoch, by this machine's clock."""

    answered: Answered
    completions: Sequence[Completion]
    timing: BatchTiming
    recorded: bool  #: False: the batch has a newer holder, or was cancelled
    writing_at: float  #: when the answers' texts were begun
    written_at: float
    closed_at: float


#: What records the answers to a claim: False where it no longer holds.
Finish = Callable[[Claim, Sequence[Completion], BatchTiming, str], bool]


def closed(answered: Answered, finish: Finish) -> Closed:
    """Stage 6: the answers as texts, and recorded."""
    writing_at = time.time()
    completions, timing = answered.written()
    written_at = time.time()
    recorded = finish(answered.claim, completions, timing, answered.device)
    return Closed(answered, completions, timing, recorded, writing_at, written_at, time.time())


@dataclass(frozen=True, slots=True)
class Witness:
    """Who is told of each attempt at a batch, when it is taken up and when it ends."""

    taken: Callable[[Claim], None]
    closed: Callable[[Closed], None]


NOBODY = Witness(lambda claim: None, lambda closed: None)


class Answering:
    """Several jobs of one model may share its engine: it does one batch at a time, on the thread that calls `run`."""

    def __init__(self, engine: Engine, encoding: Encoding, shard_of: Callable[[int], ShardRecord]) -> None:
        """`shard_of` finds a shard of the job by its number, for prompts that were lost."""
        self.engine, self._encoding, self._shard_of = engine, encoding, shard_of

    def run(self, claim: Claim, payload: Payload | None, load_s: float = 0.0) -> Answered:
        """Without a payload the rows are encoded again. A row that cannot be answered is an error, and no other is.

        Raises InputError or TryAgain where the shard cannot be read.
        """
        begun_at, watch = time.time(), Stopwatch()
        failures: list[Completion] = []
        with watch.stage("encode"):
            if payload is None:
                prompts, failures = self._encoding.rows(self._shard_of(claim.shard_no), claim.row_ids)
                payload = Payload(self._encoding.prefix, prompts)
        finished = Finished((), BatchTiming())
        if payload.prompts:
            batch = Batch(claim.job_id, claim.batch_no, claim.fence, claim.attempts, payload.prefix, payload.prompts)
            finished = run_bisecting(self.engine, batch, self._encoding.task)
        timing = replace(finished.timing, load_s=load_s, encode_s=watch.seconds["encode"])
        return Answered(
            claim,
            self.engine.device,
            replace(finished, timing=timing),
            tuple(failures),
            payload,
            self._encoding.identity,
            begun_at,
            time.time(),
        )


def make_engine(means: Means, settings: Settings) -> Engine:
    prefixes = PrefixStore.open(means.model, settings)
    vocabulary = means.vocabulary
    return Engine(means.model, prefixes, vocabulary.decode, constraints=means.constraints, write=vocabulary.write)
