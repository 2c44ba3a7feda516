"""Stage 5 of one job: the prompts of a claimed batch, or its rows once more, become answers by a warm model."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from pipeline.encoding import Encoding
from pipeline.inference.bisection import run_bisecting
from pipeline.inference.completions import Finished
from pipeline.inference.engine import Engine
from pipeline.inference.prefix_store import PrefixStore
from pipeline.means import Means
from pipeline.messages import Payload
from pipeline.rows import Batch, BatchTiming, Completion
from pipeline.settings import Settings
from pipeline.store.records import Claim, ShardRecord
from pipeline.timing import Stopwatch


@dataclass(frozen=True, slots=True)
class Answered:
    """A batch that the device is done with."""

    claim: Claim
    device: str
    finished: Finished
    failures: tuple[Completion, ...]  #: of rows that have no prompt
    cut_tokens: Mapping[int, int]  #: by row, where its text was cut

    def written(self) -> tuple[list[Completion], BatchTiming]:
        """A completion for each of the claim's rows; may be called on another thread than the one that computes."""
        completions, timing = self.finished.written()
        return [*map(self._told, completions), *self.failures], timing

    def _told(self, completion: Completion) -> Completion:
        left_out = self.cut_tokens.get(completion.row_id)
        return replace(completion, cut_tokens=left_out) if left_out else completion


class Answering:
    """Several jobs of one model may share its engine: it does one batch at a time, on the thread that calls `run`."""

    def __init__(self, engine: Engine, encoding: Encoding, shard_of: Callable[[int], ShardRecord]) -> None:
        """`shard_of` finds a shard of the job by its number, for prompts that were lost."""
        self.engine, self._encoding, self._shard_of = engine, encoding, shard_of

    def run(self, claim: Claim, payload: Payload | None, load_s: float = 0.0) -> Answered:
        """Without a payload the rows are encoded again. A row that cannot be answered is an error, and no other is.

        Raises InputError or TryAgain where the shard cannot be read.
        """
        watch = Stopwatch()
        failures: list[Completion] = []
        with watch.stage("encode"):
            if payload is None:
                prompts, failures = self._encoding.rows(self._shard_of(claim.shard_no), claim.row_ids)
                payload = Payload(self._encoding.prefix, prompts)
        finished = Finished((), BatchTiming())
        if payload.prompts:
            batch = Batch(claim.job_id, claim.batch_no, claim.fence, claim.attempts, payload.prefix, payload.prompts)
            finished = run_bisecting(self.engine, batch, self._encoding.task)
        cut_tokens = {prompt.row_id: prompt.cut_tokens for prompt in payload.prompts if prompt.cut_tokens}
        timing = replace(finished.timing, load_s=load_s, encode_s=watch.seconds["encode"])
        return Answered(claim, self.engine.device, replace(finished, timing=timing), tuple(failures), cut_tokens)


def make_engine(means: Means, settings: Settings) -> Engine:
    prefixes = PrefixStore.open(means.model, settings)
    return Engine(means.model, prefixes, means.vocabulary.decode, constraints=means.constraints)
