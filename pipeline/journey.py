"""The order of the stages, written once: how a job's rows get from their shards to their results, in one process."""

from pipeline.answering import NOBODY, Answering, Witness, closed, make_engine
from pipeline.encoding import Encoding
from pipeline.means import Means
from pipeline.messages import Payload
from pipeline.rows import Prompt
from pipeline.settings import Settings
from pipeline.spec import JobSpec
from pipeline.store.ledger import Ledger
from pipeline.store.records import Claim, JobRecord, ShardRecord


class Journey:
    """Stages 2 to 6 of one job: `encode_next` turns a shard into batches, `answer` closes a claimed one."""

    def __init__(
        self,
        job: JobRecord,
        spec: JobSpec,
        means: Means,
        ledger: Ledger,
        shards: list[ShardRecord],
        settings: Settings,
        witness: Witness = NOBODY,
    ) -> None:
        context = job.context or means.model.context
        self._encoding = Encoding(job, spec, means.vocabulary, context, means.costs, settings, shards[0])
        by_number = {shard.shard_no: shard for shard in shards}
        self._answering = Answering(make_engine(means, settings), self._encoding, by_number.__getitem__)
        self._job_id, self._ledger, self._witness = job.id, ledger, witness
        #: Token ids are kept for as long as this process needs them; lost ones come from the shard again.
        self._encoded: dict[int, tuple[Prompt, ...]] = {}

    def encode_next(self) -> bool:
        """Stages 2 and 3 for the next shard; False where none is left."""
        shard = self._ledger.next_unencoded_shard(self._job_id)
        if shard is None:
            return False
        encoded = self._encoding.shard(shard, ledger=self._ledger)
        numbers = self._ledger.record_encoding(
            self._job_id,
            shard.shard_no,
            encoded.planned,
            encoded.failures,
            encoded.seconds,
            n_cut=encoded.n_cut,
            n_neutralised=encoded.n_neutralised,
            copies=encoded.copies,
            followers=encoded.followers,
            prompt_tokens=encoded.prompt_tokens,
            planned_tokens=encoded.planned_tokens,
        )
        self._encoded = dict(zip(numbers, encoded.prompts, strict=bool(numbers)))
        return True

    def answer(self, claim: Claim) -> bool:
        """Stages 5 and 6; False where the batch was meanwhile given to another, whose answers count."""
        prompts = self._encoded.pop(claim.batch_no, None)
        self._witness.taken(claim)
        if not self._ledger.begin(claim):
            return False
        payload = None if prompts is None else Payload(self._encoding.prefix, prompts)
        outcome = closed(self._answering.run(claim, payload), self._ledger.finish)
        self._witness.closed(outcome)
        return outcome.recorded
