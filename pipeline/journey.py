"""The order of the stages, written once: how a job's rows get from their input to their results, in one process."""

from functools import partial

from pipeline.answering import Answering, make_engine
from pipeline.encoding import Encoding
from pipeline.ingest.inputs import Source
from pipeline.ingest.shards import cut
from pipeline.ingest.taking import Tally
from pipeline.means import Means
from pipeline.messages import Payload
from pipeline.rows import Prompt
from pipeline.settings import Settings
from pipeline.spec import JobSpec
from pipeline.store.ledger import Ledger
from pipeline.store.records import Claim, JobRecord, ShardRecord


def cut_job(
    ledger: Ledger, job: JobRecord, spec: JobSpec, source: Source, directory: str, shard_rows: int, cut_rows: int
) -> Tally:
    """Stage 1. A shard is a file before it is in the ledger; the first `cut_rows` rows are there already."""
    tally = Tally()
    for shard in cut(
        source, directory, shard_rows=shard_rows, key=spec.key, limit=spec.limit, skip_rows=cut_rows, tally=tally
    ):
        ledger.add_shard(job.id, shard.shard_no, shard.path, shard.row_from, shard.row_to)
        cut_rows = shard.row_to
    ledger.finish_cutting(job.id, cut_rows)
    return tally


class Journey:
    """Stages 2 to 6 of one job: `encode_next` turns a shard into batches, `answer` closes a claimed one."""

    def __init__(
        self, job: JobRecord, spec: JobSpec, means: Means, ledger: Ledger, shards: list[ShardRecord], settings: Settings
    ) -> None:
        context = job.context or means.model.context
        self._encoding = Encoding(job, spec, means.vocabulary, context, means.costs, settings, shards[0])
        by_number = {shard.shard_no: shard for shard in shards}
        self._answering = Answering(make_engine(means, settings), self._encoding, by_number.__getitem__)
        self._job_id, self._ledger = job.id, ledger
        #: Token ids are kept for as long as this process needs them; lost ones come from the shard again.
        self._encoded: dict[int, tuple[Prompt, ...]] = {}

    def encode_next(self) -> bool:
        """Stages 2 and 3 for the next shard; False where none is left."""
        shard = self._ledger.next_unencoded_shard(self._job_id)
        if shard is None:
            return False
        encoded = self._encoding.shard(shard, recall=partial(self._ledger.answers_to, self._job_id))
        numbers = self._ledger.record_encoding(
            self._job_id,
            shard.shard_no,
            encoded.planned,
            encoded.failures,
            encoded.seconds,
            n_cut=encoded.n_cut,
            n_neutralised=encoded.n_neutralised,
            copies=encoded.copies,
            prompt_tokens=encoded.prompt_tokens,
            planned_tokens=encoded.planned_tokens,
        )
        self._encoded = dict(zip(numbers, encoded.prompts, strict=bool(numbers)))
        return True

    def answer(self, claim: Claim) -> bool:
        """Stages 5 and 6; False where the batch was meanwhile given to another, whose answers count."""
        prompts = self._encoded.pop(claim.batch_no, None)
        if not self._ledger.begin(claim):
            return False
        payload = None if prompts is None else Payload(self._encoding.prefix, prompts)
        answered = self._answering.run(claim, payload)
        completions, timing = answered.written()
        return self._ledger.finish(claim, completions, timing, answered.device)
