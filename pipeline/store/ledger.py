"""Stage 6: the ledger, through which everything that happens to a job is written. Each method is one transaction."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Unpack

from sqlalchemy import Connection, Engine, and_

from pipeline.buckets import PlannedBatch
from pipeline.rows import BatchTiming, Completion, Follower
from pipeline.store import crashes, encoding, equal_rows, leases, lifecycle, retries, reuse, schedule_runs, work
from pipeline.store.records import Claim, JobRecord, ShardClaim, ShardRecord
from pipeline.store.schedule_records import RunClaim
from pipeline.store.schema import batches, shards
from pipeline.store.transactions import moment, reading, writing

#: (row_id, key) of each row of a shard.
KeysOf = Callable[[ShardRecord], Iterable[tuple[int, str]]]


class Ledger:
    """Safe to use from several threads and processes at once. `clock` tells seconds since the epoch; without one, the
    database's own counts, which all machines share."""

    def __init__(self, engine: Engine, clock: Callable[[], float] | None = None) -> None:
        self._engine = engine
        self._clock = clock

    def create_job(
        self,
        name: str | None,
        spec_json: str,
        fingerprint: str,
        model_digest: str,
        input_digest: str,
        *,
        fleet: bool = False,
        priority: int = 0,
        context: int | None = None,
        tokenizer: str | None = None,
        questions: Sequence[str] = (),
        run: RunClaim | None = None,
    ) -> JobRecord:
        """No name: one such as job-20261129-1. Raises RefusedError for a name that is taken, and where the job is that
        of a schedule's `run`, for a claim that no longer holds."""
        with writing(self._engine) as connection:
            job = lifecycle.create(
                connection,
                name,
                spec_json,
                fingerprint,
                model_digest,
                input_digest,
                self._now(connection),
                fleet=fleet,
                priority=priority,
                context=context,
                tokenizer=tokenizer,
                questions=questions,
            )
            if run is not None:
                schedule_runs.link(connection, run, job.id)
            return job

    def set_tokenizer(self, job_id: str, location: str, context: int) -> None:
        """What workers that have no model encode the job's rows with."""
        with writing(self._engine) as connection:
            lifecycle.set_tokenizer(connection, job_id, location, context)

    def set_outlook(self, job_id: str, sorts_rows: bool, predicted_reuse: float | None = None) -> None:
        """Before the first page or shard; whoever goes on with the job goes on with this."""
        with writing(self._engine) as connection:
            lifecycle.set_outlook(connection, job_id, sorts_rows, predicted_reuse)

    def add_page(self, job_id: str, page_no: int, path: str, row_from: int, row_to: int) -> None:
        """Raises RefusedError where the job is no longer being cut."""
        with writing(self._engine) as connection:
            encoding.add_page(connection, job_id, page_no, path, row_from, row_to)

    def add_shard(
        self,
        job_id: str,
        shard_no: int,
        path: str,
        row_from: int,
        row_to: int,
        row_ids: Sequence[int] | None = None,
        cut_s: float = 0.0,
    ) -> None:
        """`row_ids` are those of sorted rows. Raises RefusedError where the job is no longer being cut."""
        with writing(self._engine) as connection:
            now = self._now(connection)
            encoding.add_shard(connection, job_id, shard_no, path, row_from, row_to, row_ids, cut_s, now)

    def finish_cutting(self, job_id: str, n_rows: int) -> None:
        """The job is running from here on. Raises RefusedError where it is no longer being cut."""
        with writing(self._engine) as connection:
            lifecycle.finish_cutting(connection, job_id, n_rows)

    def discard(self, job_id: str) -> None:
        """Forget a job whose input turned out to be unreadable. Raises RefusedError once it is cut, or begun."""
        with writing(self._engine) as connection:
            lifecycle.discard(connection, job_id)

    def next_unencoded_shard(self, job_id: str) -> ShardRecord | None:
        """The lowest one; None where all are encoded, or where the job was cancelled or paused."""
        with reading(self._engine) as connection:
            return encoding.next_unencoded(connection, job_id)

    def claim_shard(self, job_id: str, shard_no: int, owner: str, lease_s: float) -> ShardClaim | None:
        """None where another has it, where it is encoded, or where the job does not go on."""
        with writing(self._engine) as connection:
            return encoding.claim(connection, job_id, shard_no, owner, lease_s, self._now(connection))

    def renew_shard(self, claim: ShardClaim, lease_s: float) -> bool:
        """False: the shard was given to another, encoded, or its job cancelled."""
        with writing(self._engine) as connection:
            return work.renew(connection, claim, self._now(connection) + lease_s)

    def give_back_shard(self, claim: ShardClaim) -> None:
        """For the next one to claim; nothing happens where the claim no longer holds."""
        with writing(self._engine) as connection:
            work.give_back(connection, claim)

    def record_encoding(
        self,
        job_id: str,
        shard_no: int,
        planned: Sequence[PlannedBatch],
        failures: Sequence[Completion],
        encode_s: float,
        tokens: str | None = None,
        *,
        copies: Sequence[Completion] = (),
        followers: Sequence[Follower] = (),
        **counts: Unpack[encoding.Counts],
    ) -> list[int]:
        """The numbers of the new batches; none, and nothing written, where another runner was first or the job was
        cancelled. At `tokens` are the prompts of each batch, in the order of `planned`. Rows of `copies` are answered,
        `followers` wait for others' answers. Raises ValueError unless these all are the shard's rows, each once."""
        ended = (failures, copies, followers)
        with writing(self._engine) as connection:
            now = self._now(connection)
            return encoding.record(connection, job_id, shard_no, planned, *ended, encode_s, tokens, counts, now)

    def lead(self, job_id: str, shard_no: int, row_ids: Mapping[bytes, int]) -> dict[bytes, int]:
        """Of prompts by their hashes, each with its first row in the shard: the rows of other shards that are answered
        for them. All others this shard leads, before it is encoded."""
        with writing(self._engine) as connection:
            return equal_rows.lead(connection, job_id, shard_no, row_ids)

    def answers_to(self, job_id: str, hashes: Sequence[bytes], *, of_any_job: bool = True) -> dict[bytes, Completion]:
        """To prompts by their hashes, as completions of other rows: those of any job, which for an incremental
        schedule's job is any of the schedule's, or of this job alone."""
        with reading(self._engine) as connection:
            return reuse.answers_to(connection, job_id, hashes, of_any_job=of_any_job)

    def claim(self, job_id: str, owner: str, lease_s: float) -> Claim | None:
        """The lowest batch of a running job that is free, or whose lease has run out; None where there is none."""
        with writing(self._engine) as connection:
            return leases.claim(connection, job_id, owner, lease_s, self._now(connection))

    def claim_batch(self, job_id: str, batch_no: int, owner: str, lease_s: float) -> Claim | None:
        """This one; None where another has it, where it is closed, or where the job does not go on."""
        with writing(self._engine) as connection:
            return leases.claim_named(connection, job_id, batch_no, owner, lease_s, self._now(connection))

    def begin(self, claim: Claim) -> bool:
        """From now on the batch is blamed where its holder dies. False, and it is not to be answered: the claim no
        longer holds, or the job was paused."""
        with writing(self._engine) as connection:
            return leases.begin(connection, claim, self._now(connection))

    def renew(self, claim: Claim, lease_s: float) -> bool:
        """False: the batch was given to another or cancelled, and its answers will be refused."""
        return bool(self.renew_all([claim], lease_s))

    def renew_all(self, claims: Sequence[Claim], lease_s: float) -> list[Claim]:
        """Those that still hold."""
        with writing(self._engine) as connection:
            until = self._now(connection) + lease_s
            in_order = sorted(claims, key=lambda claim: (claim.job_id, claim.batch_no))
            return [claim for claim in in_order if work.renew(connection, claim, until)]

    def give_back(self, claim: Claim) -> None:
        """Unanswered, for the next one to claim; nothing happens where the claim no longer holds."""
        with writing(self._engine) as connection:
            work.give_back(connection, claim)

    def finish(self, claim: Claim, completions: Sequence[Completion], timing: BatchTiming, device: str) -> bool:
        """Close the batch and record its rows, or False and nothing written where the claim no longer holds.

        Raises ValueError unless `completions` are the claim's rows, each once, and each ok, truncated or error.
        """
        with writing(self._engine) as connection:
            return leases.finish(connection, claim, completions, timing, device, partial(self._now, connection))

    def release(self, job_id: str, is_dead: Callable[[str], bool]) -> int:
        """Batches whose lease ran out, or whose owner is dead, are free again; how many. See `bisect`."""
        with writing(self._engine) as connection:
            return leases.release(connection, job_id, is_dead, self._now(connection))

    def died(self, owner: str, what: str) -> int:
        """All that it holds is free again; how much. `what` tells of its end in words that follow a colon."""
        with writing(self._engine) as connection:
            return sum(
                work.free(
                    connection,
                    table,
                    and_(table.c.lease_until.is_not(None), table.c.lease_owner == owner),
                    what,
                    wait=True,
                )
                for table in (shards, batches)
            )

    def let_go(self, owner: str) -> int:
        """The same for one that was asked to stop, and is not to be blamed for what it had begun."""
        with writing(self._engine) as connection:
            return sum(work.let_go(connection, table, table.c.lease_owner == owner) for table in (shards, batches))

    def bisect(self, job_id: str, keys_of: KeysOf) -> tuple[int, int]:
        """Batches that too many workers died of, which nobody can claim any more: how many are halved, and how many
        were down to one prompt, whose rows are errors now. Each is one transaction."""
        with reading(self._engine) as connection:
            found = crashes.suspects(connection, job_id)
        split = dead = 0
        for suspect, shard in found:
            keys = dict(keys_of(shard)) if suspect.is_alone else {}
            with writing(self._engine) as connection:
                now = self._now(connection)
                if suspect.is_alone:
                    dead += crashes.bury(connection, suspect, keys, now)
                else:
                    split += crashes.split(connection, suspect, now)
        return split, dead

    def settle(self, job_id: str) -> int:
        """Some followers whose leaders have ended have their answers too, or are in batches; how many."""
        with writing(self._engine) as connection:
            return equal_rows.settle(connection, job_id, self._now(connection))

    def complete(self, job_id: str) -> bool:
        """Done, where the job is running and nothing of it is open; whether this call did it."""
        with writing(self._engine) as connection:
            return lifecycle.complete(connection, job_id, self._now(connection))

    def pause(self, job_id: str, reason: str | None = None) -> None:
        """Nothing of it is begun until it is unpaused; what a model is at is ended. Raises RefusedError where the job
        has ended. Of a paused job, the first reason stays."""
        with writing(self._engine) as connection:
            lifecycle.pause(connection, job_id, reason, self._now(connection))

    def unpause(self, job_id: str) -> None:
        """Nothing happens to a job that is not paused."""
        with writing(self._engine) as connection:
            lifecycle.unpause(connection, job_id)

    def take_over(self, job_id: str, fleet: bool) -> None:
        """The job goes on in a fleet, or in processes of its own."""
        with writing(self._engine) as connection:
            lifecycle.take_over(connection, job_id, fleet)

    def cancel(self, job_id: str, keys_of: KeysOf) -> int:
        """Every row without a result is cancelled; how many rows now are. Raises RefusedError for a done job.

        The first transaction stops the job for every runner;
        then each shard is one, so that no other job waits long for the database. Cut short, cancel again.
        """
        with writing(self._engine) as connection:
            to_do = lifecycle.cancel(connection, job_id, self._now(connection))
        cancelled = 0
        for shard in to_do:
            keys = list(keys_of(shard))
            with writing(self._engine) as connection:
                cancelled += lifecycle.cancel_rows(connection, shard, keys, self._now(connection))
        return cancelled

    def revive(self, job_id: str) -> None:
        """A cancelled job goes on where it stopped. Raises RefusedError for any other."""
        with writing(self._engine) as connection:
            lifecycle.revive(connection, job_id)

    def retry_errors(self, job_id: str, batch_rows: int) -> int:
        """Error rows lose their results and go into new batches; how many. Raises RefusedError where cancelled."""
        with writing(self._engine) as connection:
            return retries.retry_errors(connection, job_id, batch_rows, self._now(connection))

    def restate(self, job_id: str, spec_json: str, priority: int = 0) -> None:
        """The same job as it was asked for again: other only in what changes no result, such as its output."""
        with writing(self._engine) as connection:
            lifecycle.restate(connection, job_id, spec_json, priority)

    def fail_note(self, job_id: str, text: str | None) -> None:
        """Why the last run of the job stopped; None where it did not."""
        with writing(self._engine) as connection:
            lifecycle.note(connection, job_id, text, self._now(connection))

    def _now(self, connection: Connection) -> float:
        return moment(connection) if self._clock is None else self._clock()
