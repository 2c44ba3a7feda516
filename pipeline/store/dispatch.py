"""Stage 4: the dispatcher's side of the ledger: what is handed out next, and what is taken back from where it got lost.

Each method is one transaction, or several where it says so.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, Engine, and_, or_

from pipeline.errors import JobError, TryAgain
from pipeline.store import crashes, equal_rows, lifecycle, outbox
from pipeline.store.ledger import KeysOf, Ledger
from pipeline.store.outbox import Backlog
from pipeline.store.records import BatchState, Bell
from pipeline.store.schema import batches, shards
from pipeline.store.transactions import moment, reading, writing
from pipeline.store.turns import take_turns
from pipeline.store.work import Key, free, ran_out, take_back, write

_LOG = logging.getLogger(__name__)
_TABLES = (shards, batches)
#: Transactions in a row for rows of one job that wait for others' answers: all else waits meanwhile.
_MOST_ROUNDS = 16


@dataclass(frozen=True, slots=True)
class Recovered:
    """What was amiss in the fleet's jobs, in numbers of shards and batches."""

    expired: int = 0  #: leases that ran out
    lost: int = 0  #: messages that nobody took
    split: int = 0
    dead: int = 0

    def __add__(self, other: "Recovered") -> "Recovered":
        return Recovered(
            self.expired + other.expired, self.lost + other.lost, self.split + other.split, self.dead + other.dead
        )


class Dispatch:
    """Two at once are harmless. `keys_of` gives (row_id, key) of each row of a shard, whichever job's it is."""

    def __init__(
        self,
        engine: Engine,
        keys_of: KeysOf,
        clock: Callable[[], float] | None = None,
    ) -> None:
        self._engine, self._keys_of, self._clock = engine, keys_of, clock
        self._ledger = Ledger(engine, clock)

    def recover(self, lost_after_s: float, trusts_leases: Callable[[float], bool] = lambda now: True) -> Recovered:
        """Several transactions: what ran out or got lost is pending again, and what too many workers died of is taken
        from them. A job that this does not help is paused. `trusts_leases` hears the ledger's time; where it says no,
        none is taken to have run out."""
        with writing(self._engine) as connection:
            now = self._now(connection)
            trusted = trusts_leases(now)
            expired = lost = 0
            for table in _TABLES:
                mine = outbox.of_fleet(table)
                if trusted:
                    expired += free(connection, table, and_(mine, ran_out(table, now)), None)
                # Of a time that is yet to come, it was before the clock was set back.
                old = or_(table.c.enqueued_at < now - lost_after_s, table.c.enqueued_at > now + lost_after_s)
                lost += take_back(connection, table, and_(mine, old))
        split, dead = self._bisect()
        with reading(self._engine) as connection:
            stuck = outbox.stuck_jobs(connection)
        for job_id, why in stuck.items():
            self._ledger.pause(job_id, why)
        return Recovered(expired, lost, split, dead)

    def lose_all(self) -> int:
        """The broker lost whatever it was told; how many shards and batches are pending again."""
        with writing(self._engine) as connection:
            return sum(take_back(connection, table, outbox.of_fleet(table)) for table in _TABLES)

    def enqueue_batches(self, most: int) -> list[Bell]:
        """Enqueued from here on, whatever becomes of the caller, who tells the broker of them in this order."""
        with writing(self._engine) as connection:
            line = outbox.waiting(connection, batches)
            taken = take_turns(line, lambda job_id: outbox.pending_batches(connection, job_id), most)
            keys = [(bell.job_id, bell.batch_no) for bell in taken]
            write(connection, batches, keys, state=BatchState.ENQUEUED, enqueued_at=self._now(connection))
        return taken

    def enqueue_shards(self, most: int, ahead: int = outbox.MOST_COUNTED) -> list[Key]:
        """The same for shards: the id of the job, and the shard's number in it. A job of which so many batches wait
        already is passed over."""
        with writing(self._engine) as connection:
            line = [job for job in outbox.waiting(connection, shards) if outbox.is_short(connection, job.job_id, ahead)]
            taken = take_turns(line, lambda job_id: outbox.pending_shards(connection, job_id), most)
            write(connection, shards, taken, state=BatchState.ENQUEUED, enqueued_at=self._now(connection))
        return taken

    def unenqueue(self, bells: Sequence[Bell]) -> None:
        """The broker could not be told of them."""
        keys = [(bell.job_id, bell.batch_no) for bell in bells]
        with writing(self._engine) as connection:
            take_back(connection, batches, outbox.named(batches, keys))

    def unenqueue_shards(self, keys: Sequence[Key]) -> None:
        """The same for shards."""
        with writing(self._engine) as connection:
            take_back(connection, shards, outbox.named(shards, keys))

    def backlog(self) -> Backlog:
        """Of one moment."""
        with reading(self._engine) as connection:
            return outbox.backlog(connection)

    def complete_jobs(self) -> list[str]:
        """Every running job of which nothing is open is done, each in a transaction; the ids of these. Before that,
        rows that wait for another row's answer have it, where it is there."""
        with reading(self._engine) as connection:
            waiting = equal_rows.waiting_jobs(connection)
        for job_id in waiting:
            for _ in range(_MOST_ROUNDS):
                if not self._ledger.settle(job_id):
                    break
        with reading(self._engine) as connection:
            found = lifecycle.completable(connection)
        return [job_id for job_id in found if self._ledger.complete(job_id)]

    def token_files(self, job_ids: Sequence[str]) -> list[tuple[str, int]]:
        """Where the prompts of each shard of these jobs lie, and how often they may have been written; nobody needs
        them any more once a job is done."""
        with reading(self._engine) as connection:
            return outbox.token_files(connection, job_ids)

    def _bisect(self) -> tuple[int, int]:
        with reading(self._engine) as connection:
            found = crashes.suspected_jobs(connection)
        split = dead = 0
        for job_id in found:
            try:
                halved, buried = self._ledger.bisect(job_id, self._keys_of)
            except JobError as error:
                self._ledger.pause(job_id, str(error))
            except TryAgain as error:
                _LOG.warning("A batch that killed its workers is looked at again later: %s", error)
            else:
                split, dead = split + halved, dead + buried
        return split, dead

    def _now(self, connection: Connection) -> float:
        return moment(connection) if self._clock is None else self._clock()
