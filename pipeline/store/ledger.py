"""Stage 6: the ledger, through which everything that happens to a job is written. Each method is one transaction."""

import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from sqlalchemy import Engine

from pipeline.buckets import PlannedBatch
from pipeline.rows import BatchTiming, Completion
from pipeline.store import encoding, leases, lifecycle, retries
from pipeline.store.records import Claim, JobRecord, ShardRecord
from pipeline.store.transactions import reading, writing


class Ledger:
    """Safe to use from several threads and processes at once; `clock` tells seconds since the epoch."""

    def __init__(self, engine: Engine, clock: Callable[[], float] = time.time) -> None:
        self._engine = engine
        self._clock = clock

    def create_job(
        self, name: str | None, spec_json: str, fingerprint: str, model_digest: str, input_digest: str
    ) -> JobRecord:
        """No name: one such as job-20261129-1. Raises RefusedError for a name that is taken."""
        with writing(self._engine) as connection:
            return lifecycle.create(connection, name, spec_json, fingerprint, model_digest, input_digest, self._clock())

    def add_shard(self, job_id: str, shard_no: int, path: Path, row_from: int, row_to: int) -> None:
        """Raises RefusedError where the job is no longer being cut."""
        with writing(self._engine) as connection:
            encoding.add_shard(connection, job_id, shard_no, path, row_from, row_to)

    def finish_cutting(self, job_id: str, n_rows: int) -> None:
        """The job is running from here on. Raises RefusedError where it is no longer being cut."""
        with writing(self._engine) as connection:
            lifecycle.finish_cutting(connection, job_id, n_rows)

    def discard(self, job_id: str) -> None:
        """Forget a job whose input turned out to be unreadable. Raises RefusedError once it is cut."""
        with writing(self._engine) as connection:
            lifecycle.discard(connection, job_id)

    def next_unencoded_shard(self, job_id: str) -> ShardRecord | None:
        """The lowest one; None where all are encoded, or where the job was cancelled."""
        with reading(self._engine) as connection:
            return encoding.next_unencoded(connection, job_id)

    def record_encoding(
        self,
        job_id: str,
        shard_no: int,
        planned: Sequence[PlannedBatch],
        failures: Sequence[Completion],
        encode_s: float,
    ) -> list[int]:
        """The numbers of the new batches; none, and nothing written, where another runner was first or the job was
        cancelled. Raises ValueError unless `planned` and `failures` together are the shard's rows, each once."""
        with writing(self._engine) as connection:
            return encoding.record(connection, job_id, shard_no, planned, failures, encode_s, self._clock())

    def claim(self, job_id: str, owner: str, lease_s: float) -> Claim | None:
        """The lowest batch that is free, or whose lease has run out; None where there is none."""
        with writing(self._engine) as connection:
            return leases.claim(connection, job_id, owner, lease_s, self._clock())

    def renew(self, claim: Claim, lease_s: float) -> bool:
        """False: the batch was given to another or cancelled, and its answers will be refused."""
        with writing(self._engine) as connection:
            return leases.renew(connection, claim, self._clock() + lease_s)

    def give_back(self, claim: Claim) -> None:
        """Unanswered, for the next one to claim; nothing happens where the claim no longer holds."""
        with writing(self._engine) as connection:
            leases.give_back(connection, claim)

    def finish(self, claim: Claim, completions: Sequence[Completion], timing: BatchTiming, device: str) -> bool:
        """Close the batch and record its rows, or False and nothing written where the claim no longer holds.

        Raises ValueError unless `completions` are the claim's rows, each once, and each ok, truncated or error.
        """
        with writing(self._engine) as connection:
            return leases.finish(connection, claim, completions, timing, device, self._clock)

    def release(self, job_id: str, is_dead: Callable[[str], bool]) -> int:
        """Batches whose lease ran out, or whose owner is dead, are free again; how many."""
        with writing(self._engine) as connection:
            return leases.release(connection, job_id, is_dead, self._clock())

    def complete(self, job_id: str) -> bool:
        """Done, where the job is running and nothing of it is open; whether this call did it."""
        with writing(self._engine) as connection:
            return lifecycle.complete(connection, job_id, self._clock())

    def cancel(self, job_id: str, keys_of: Callable[[ShardRecord], Iterable[tuple[int, str]]]) -> int:
        """Every row without a result is cancelled; how many rows now are. Raises RefusedError for a done job.

        `keys_of` gives (row_id, key) of each row of a shard. The first transaction stops the job for every runner;
        then each shard is one, so that no other job waits long for the database. Cut short, cancel again.
        """
        with writing(self._engine) as connection:
            to_do = lifecycle.cancel(connection, job_id, self._clock())
        cancelled = 0
        for shard in to_do:
            keys = list(keys_of(shard))
            with writing(self._engine) as connection:
                cancelled += lifecycle.cancel_rows(connection, shard, keys, self._clock())
        return cancelled

    def revive(self, job_id: str) -> None:
        """A cancelled job goes on where it stopped. Raises RefusedError for any other."""
        with writing(self._engine) as connection:
            lifecycle.revive(connection, job_id)

    def retry_errors(self, job_id: str, batch_rows: int) -> int:
        """Error rows lose their results and go into new batches; how many. Raises RefusedError where cancelled."""
        with writing(self._engine) as connection:
            return retries.retry_errors(connection, job_id, batch_rows, self._clock())

    def restate(self, job_id: str, spec_json: str) -> None:
        """The same job as it was asked for again: other only in what changes no result, such as its output."""
        with writing(self._engine) as connection:
            lifecycle.restate(connection, job_id, spec_json)

    def fail_note(self, job_id: str, text: str | None) -> None:
        """Why the last run of the job stopped; None where it did not."""
        with writing(self._engine) as connection:
            lifecycle.note(connection, job_id, text)
