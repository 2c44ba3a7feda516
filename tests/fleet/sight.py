"""What the database tells of a fleet's work, by the names of its jobs."""

from dataclasses import dataclass

from sqlalchemy import Engine, Row, func, select

from pipeline.rows import Completion
from pipeline.store.integrity import check_integrity
from pipeline.store.queries import find_job, progress, stream_results
from pipeline.store.records import BatchState, JobRecord, Progress, Role, ShardState, WorkerRecord
from pipeline.store.registry import Registry
from pipeline.store.schema import batches, shards
from pipeline.store.transactions import reading

Answers = dict[int, tuple[object, ...]]


@dataclass(frozen=True)
class Sight:
    engine: Engine

    def job(self, name: str) -> JobRecord:
        return find_job(self.engine, name)

    def figures(self, name: str) -> Progress:
        return progress(self.engine, self.job(name).id)

    def workers(self) -> list[WorkerRecord]:
        return Registry(self.engine).all()

    def begun(self, name: str) -> set[tuple[int, int]]:
        """Batches that a worker is at just now, each with the worker's pid."""
        pids = {record.id: record.pid for record in self.workers() if record.role is Role.GPU}
        at_work = select(batches.c.batch_no, batches.c.lease_owner).where(
            batches.c.job_id == self.job(name).id, batches.c.begun_at.is_not(None)
        )
        with reading(self.engine) as connection:
            return {(batch_no, pids[owner]) for batch_no, owner in connection.execute(at_work) if owner in pids}

    def beginnings(self, *names: str) -> list[str]:
        """Names of jobs, one for each batch of theirs, in the order in which they were taken."""
        ids = {self.job(name).id: name for name in names}
        taken = select(batches.c.job_id).where(batches.c.job_id.in_(ids), batches.c.started_at.is_not(None))
        with reading(self.engine) as connection:
            return [ids[job_id] for job_id in connection.scalars(taken.order_by(batches.c.started_at))]

    def sendings(self, name: str) -> dict[int, float]:
        """When each batch of the job that was taken once was sent, by number; those sent together share it."""
        taken = [batch for batch in self.batches(name) if batch.attempts == 1]
        return {batch.batch_no: batch.started_at - batch.queue_s for batch in taken}

    def crashes(self, name: str) -> int:
        """Deaths and silences that batches of the job were blamed for."""
        return sum(row.crashes + row.silences for row in self.batches(name))

    def leases(self, name: str) -> int:
        """Batches and shards of the job that somebody holds."""
        with reading(self.engine) as connection:
            held = (
                select(func.count()).where(table.c.job_id == self.job(name).id, table.c.lease_until.is_not(None))
                for table in (batches, shards)
            )
            return sum(connection.scalar(count) or 0 for count in held)

    def batches(self, name: str) -> list[Row[tuple[object, ...]]]:
        with reading(self.engine) as connection:
            return list(connection.execute(select(batches).where(batches.c.job_id == self.job(name).id)))

    def encoding(self, name: str) -> int:
        """The newest fence of a shard of the job that a tokenizer is at; 0: it is at none."""
        fence = select(func.max(shards.c.fence))
        at_work = fence.where(shards.c.job_id == self.job(name).id, shards.c.state == ShardState.LEASED)
        with reading(self.engine) as connection:
            return connection.scalar(at_work) or 0

    def results(self, name: str) -> list[Completion]:
        return list(stream_results(self.engine, self.job(name).id))

    def answers(self, name: str) -> Answers:
        """What a person gets, by row."""
        rows = self.results(name)
        found = {row.row_id: (row.key, row.status, row.output, row.error_type, row.output_tokens) for row in rows}
        assert len(found) == len(rows)
        return found

    def require_closed(self, name: str) -> None:
        """Of a job that ended: its rows and sums agree, nothing is open, and no lease is left."""
        job = self.job(name)
        assert check_integrity(self.engine, job.id) == []
        with reading(self.engine) as connection:
            for table in (batches, shards):
                is_held = table.c.lease_until.is_not(None) | table.c.enqueued_at.is_not(None)
                left = select(func.count()).where(table.c.job_id == job.id, is_held)
                assert connection.scalar(left) == 0
            ended = (BatchState.DONE, BatchState.SPLIT, BatchState.DEAD, BatchState.CANCELLED)
            is_open = batches.c.state.not_in(ended) | batches.c.finished_at.is_(None)
            assert connection.scalar(select(func.count()).where(batches.c.job_id == job.id, is_open)) == 0
