"""Each time of a schedule becomes one run, and each run one job, however many processes look at the clock.

A run is recorded under its time, which is unique, in the transaction that moves the schedule on to its next time. It is
begun under a fence and a lease, and linked to its job in the transaction that makes the job (Ledger.create_job). So a
process that dies at any point leaves a run that another one goes on with.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any
from uuid import uuid4

from sqlalchemy import ColumnElement, Connection, Engine, Row, and_, exists, or_, select, update
from sqlalchemy.sql.dml import Update

from pipeline.errors import RefusedError
from pipeline.store import notices
from pipeline.store.entries import INSERT
from pipeline.store.records import JobRecord
from pipeline.store.run_states import ENDS, after_job, claimable, is_free, is_late
from pipeline.store.schedule_records import Event, Overlap, RunClaim, RunRecord, RunState, ScheduleRecord
from pipeline.store.schema import OPEN_RUN, jobs, schedule_runs, schedules
from pipeline.store.transactions import moment, reading, writing

_LOST = "This run of the schedule was cancelled, its schedule was removed, or another process has taken it over."


#: What is told of a run's end, where it is not that of its job.
_TOLD = {RunState.FAILED: Event.FAILED, RunState.SKIPPED: Event.SKIPPED}


@dataclass(frozen=True, slots=True)
class NewRun:
    """A time that has come: due, or skipped for the reason in `note`."""

    scheduled_for: float
    job_name: str  #: as wished; it gets a number behind it where it is taken
    state: RunState = RunState.DUE
    note: str | None = None


class ScheduleRuns:
    """Two tickers at once are harmless. `clock` tells seconds since the epoch, the database's own unless given."""

    def __init__(self, engine: Engine, clock: Callable[[], float] | None = None) -> None:
        self._engine, self._clock = engine, clock

    def record(self, schedule: ScheduleRecord, runs: Sequence[NewRun], next_at: float) -> bool:
        """The schedule's next time is `next_at` from here on. False, and nothing is written, where another process was
        first, or the schedule was changed meanwhile. Of several that were skipped, a notice tells of the last."""
        as_seen = and_(
            schedules.c.id == schedule.id, schedules.c.next_at == schedule.next_at, schedules.c.paused_at.is_(None)
        )
        with writing(self._engine) as connection:
            if not connection.execute(update(schedules).where(as_seen).values(next_at=next_at)).rowcount:
                return False
            now = self._now(connection)
            recorded = [_insert(connection, schedule, run, now) for run in runs]
            if runs and runs[-1].state is RunState.SKIPPED:
                notices.add_of_run(connection, Event.SKIPPED, recorded[-1], schedule.spec_json, now)
        return True

    def record_now(self, schedule: ScheduleRecord, job_name: str) -> RunRecord:
        """Of this moment, besides the schedule's times."""
        with writing(self._engine) as connection:
            now = self._now(connection)
            run_id = _insert(connection, schedule, NewRun(now, job_name), now)
            return _read(connection, run_id)

    def open(self, schedule: ScheduleRecord) -> list[RunRecord]:
        """Those that are not over, the earliest first."""
        of_it = and_(schedule_runs.c.schedule_id == schedule.id, OPEN_RUN)
        with reading(self._engine) as connection:
            found = connection.execute(select(schedule_runs).where(of_it).order_by(schedule_runs.c.scheduled_for))
            return [RunRecord(**row._mapping) for row in found]

    def close_ended(self) -> None:
        """What a fleet has ended is over, or due once more where the job's file is still to be written."""
        run = schedule_runs.c
        query = (
            select(run.id, jobs.c.state, jobs.c.finished_at, jobs.c.spec_json)
            .outerjoin_from(schedule_runs, jobs, jobs.c.id == run.job_id)
            .where(OPEN_RUN, run.state == RunState.RUNNING, or_(jobs.c.id.is_(None), jobs.c.state.in_(ENDS)))
        )
        with reading(self._engine) as connection:
            found, now = connection.execute(query).all(), self._now(connection)
        for row in found:
            running = update(schedule_runs).where(run.id == row.id, run.state == RunState.RUNNING)
            with writing(self._engine) as connection:
                connection.execute(running.values(after_job(row, now)))

    def overlapped(self) -> list[RunRecord]:
        """Those that a later run of their schedule, which is due, is to take the place of; and those whose place is
        taken, but whose job is not cancelled, since whoever was to do it died."""
        later = schedule_runs.alias("later")
        is_due = exists().where(
            later.c.schedule_id == schedule_runs.c.schedule_id,
            later.c.scheduled_for > schedule_runs.c.scheduled_for,
            later.c.finished_at.is_(None),
            later.c.state == RunState.DUE,
        )
        gives_way = and_(schedules.c.overlap == Overlap.CANCEL, is_due)
        query = (
            select(schedule_runs)
            .join(schedules, schedules.c.id == schedule_runs.c.schedule_id)
            .where(OPEN_RUN, or_(schedule_runs.c.state == RunState.CANCELLED, gives_way))
        )
        with reading(self._engine) as connection:
            return [RunRecord(**row._mapping) for row in connection.execute(query)]

    def supersede(self, run: RunRecord, note: str) -> str | None:
        """Whoever is at it can make it no job any more. The id of the one that it has, and then it is over when
        `superseded` is told that this is cancelled."""
        its = schedule_runs.c.id == run.id
        with writing(self._engine) as connection:
            given_way = {"state": RunState.CANCELLED, "note": note, "fence": schedule_runs.c.fence + 1}
            connection.execute(update(schedule_runs).where(its, OPEN_RUN).values(given_way))
            job_id = _read(connection, run.id).job_id
            if job_id is None:
                self._close_superseded(connection, its)
            return job_id

    def superseded(self, run: RunRecord) -> None:
        with writing(self._engine) as connection:
            self._close_superseded(connection, schedule_runs.c.id == run.id)

    def _close_superseded(self, connection: Connection, its: ColumnElement[bool]) -> None:
        over = {"finished_at": self._now(connection), "lease_until": None}
        connection.execute(update(schedule_runs).where(its, OPEN_RUN).values(over))

    def claim_all(self, lease_s: float, most: int | None = None) -> list[RunClaim]:
        """What may be begun now, or lost its process, and is not held up by an earlier run of its schedule; the
        earliest first, so many at most. What comes too late for its schedule's grace time is skipped."""
        while True:
            with reading(self._engine) as connection:
                now = self._now(connection)
                found = connection.execute(claimable(now).order_by(schedule_runs.c.scheduled_for)).all()
            late = [row for row in found if is_late(row, now)]
            if not late:
                break
            self._skip(late)
        if not found[:most]:  # as a rule, and then nobody need wait for this
            return []
        with writing(self._engine) as connection:
            claims = [_claim(connection, row.id, row.fence, now, lease_s) for row in found[:most]]
            return [claim for claim in claims if claim is not None]

    def _skip(self, late: Sequence[Row[*tuple[Any, ...]]]) -> None:
        with writing(self._engine) as connection:
            now = self._now(connection)
            for row in late:
                note = " ".join(filter(None, ("It could not be started within its grace time.", row.note)))
                over = {"state": RunState.SKIPPED, "note": note, "finished_at": now, "lease_until": None}
                free = and_(is_free(now), schedule_runs.c.id == row.id, schedule_runs.c.fence == row.fence)
                changed = update(schedule_runs).where(free).values(over)
                if connection.execute(changed).rowcount:
                    notices.add_of_run(connection, Event.SKIPPED, row.id, row.spec_json, now)

    def claim(self, run: RunRecord, lease_s: float) -> RunClaim | None:
        """This one, as it was seen; None where another process has it."""
        with writing(self._engine) as connection:
            return _claim(connection, run.id, run.fence, self._now(connection), lease_s)

    def renew(self, claim: RunClaim, lease_s: float) -> bool:
        """False: another process has it, or it was cancelled."""
        with writing(self._engine) as connection:
            until = self._now(connection) + lease_s
            return bool(connection.execute(_held(claim).values(lease_until=until)).rowcount)

    def hand_over(self, claim: RunClaim) -> None:
        """Its job is with a fleet."""
        with writing(self._engine) as connection:
            connection.execute(_held(claim).values(state=RunState.RUNNING, lease_until=None, attempts=0))

    def rename(self, claim: RunClaim) -> str:
        """Another name for its job, since its own was taken meanwhile. Raises RefusedError for a claim that no longer
        holds."""
        with writing(self._engine) as connection:
            name = _free_name(connection, _read(connection, claim.run_id).job_name)
            if not connection.execute(_held(claim).values(job_name=name)).rowcount:
                raise RefusedError(_LOST)
            return name

    def remark(self, claim: RunClaim, note: str) -> None:
        with writing(self._engine) as connection:
            connection.execute(_held(claim).values(note=note))

    def postpone(self, claim: RunClaim, pause_s: float, note: str) -> None:
        """It is due again, after so many seconds."""
        with writing(self._engine) as connection:
            until = self._now(connection) + pause_s
            connection.execute(_held(claim).values(state=RunState.DUE, lease_until=until, note=note))

    def stop(self, claim: RunClaim) -> None:
        """A person did; it is due again at once, and that was no try."""
        note = "It was stopped; the next look at the clock goes on with it."
        due = {"state": RunState.DUE, "lease_until": None, "attempts": claim.attempts - 1, "note": note}
        with writing(self._engine) as connection:
            connection.execute(_held(claim).values(due))

    def end(self, claim: RunClaim, state: RunState, note: str | None = None) -> None:
        """Without a note, what was remarked stays. A notice tells of a failure, and of a run that came to no job."""
        with writing(self._engine) as connection:
            now = self._now(connection)
            over = {"state": state, "finished_at": now, "lease_until": None} | ({"note": note} if note else {})
            if not connection.execute(_held(claim).values(over)).rowcount or state not in _TOLD:
                return
            run = _read(connection, claim.run_id)
            spec_json = connection.scalars(select(schedules.c.spec_json).where(schedules.c.id == run.schedule_id)).one()
            if run.job_id is not None:
                notices.take_back_done(connection, run.job_id)
            notices.add_of_run(connection, _TOLD[state], run.id, spec_json, now, run.job_id)

    def mend(self, job: JobRecord) -> None:
        """The job is done and its file is written, where the run failed for want of either. A notice tells of it."""
        with writing(self._engine) as connection:
            now = self._now(connection)
            if mend(connection, job.id, now):
                notices.take_back_done(connection, job.id)
                notices.add(connection, Event.DONE, job, now)

    def _now(self, connection: Connection) -> float:
        return moment(connection) if self._clock is None else self._clock()


def link(connection: Connection, claim: RunClaim, job_id: str) -> None:
    """The run's job is this one. Raises RefusedError where it has one, or another process has the run by now."""
    if not connection.execute(_held(claim).where(schedule_runs.c.job_id.is_(None)).values(job_id=job_id)).rowcount:
        raise RefusedError(_LOST)


def unlink(connection: Connection, job_id: str) -> None:
    """The job is forgotten."""
    connection.execute(update(schedule_runs).where(schedule_runs.c.job_id == job_id).values(job_id=None))


def mend(connection: Connection, job_id: str, now: float) -> bool:
    """The run failed, and a person saw to its job, which is done. False where it did not fail."""
    failed = and_(schedule_runs.c.job_id == job_id, schedule_runs.c.state == RunState.FAILED)
    done = update(schedule_runs).where(failed).values(state=RunState.DONE, finished_at=now, note=None)
    return bool(connection.execute(done).rowcount)


def is_begun(connection: Connection, job_id: str) -> bool:
    """Whether the job is that of a run whose process will tell how it ends."""
    of_it = and_(schedule_runs.c.job_id == job_id, schedule_runs.c.state == RunState.BEGUN)
    return bool(connection.scalar(select(exists().where(of_it))))


def _insert(connection: Connection, schedule: ScheduleRecord, run: NewRun, now: float) -> str:
    """The id of the run of that time, which may be there already."""
    there = and_(schedule_runs.c.schedule_id == schedule.id, schedule_runs.c.scheduled_for == run.scheduled_for)
    job_name = _free_name(connection, run.job_name) if run.state is RunState.DUE else run.job_name
    over_at = None if run.state is RunState.DUE else now
    record = RunRecord(
        uuid4().hex, schedule.id, run.scheduled_for, run.state, job_name, note=run.note, finished_at=over_at
    )
    into = INSERT[connection.dialect.name](schedule_runs)
    connection.execute(into.on_conflict_do_nothing(index_elements=["schedule_id", "scheduled_for"]), asdict(record))
    run_id: str = connection.scalars(select(schedule_runs.c.id).where(there)).one()
    return run_id


def _free_name(connection: Connection, wished: str) -> str:
    """No job and no other run that is to become one has it."""
    of_jobs = select(jobs.c.name).where(jobs.c.name.startswith(wished, autoescape=True))
    runs = schedule_runs.c
    of_runs = select(runs.job_name).where(
        runs.job_name.startswith(wished, autoescape=True), runs.state != RunState.SKIPPED
    )
    taken = {*connection.scalars(of_jobs), *connection.scalars(of_runs)}
    names = (wished if number == 1 else f"{wished}-{number}" for number in range(1, len(taken) + 2))
    return next(name for name in names if name not in taken)


def _claim(connection: Connection, run_id: str, fence: int, now: float, lease_s: float) -> RunClaim | None:
    run = schedule_runs.c
    free = and_(run.id == run_id, run.fence == fence, is_free(now))
    lease = {"lease_until": now + lease_s, "fence": fence + 1, "attempts": run.attempts + 1}
    begun = lease | {"state": RunState.BEGUN, "note": None}
    found = connection.execute(update(schedule_runs).where(free).values(begun).returning(run.attempts)).one_or_none()
    return None if found is None else RunClaim(run_id, fence + 1, found.attempts)


def _held(claim: RunClaim) -> Update:
    run = schedule_runs.c
    mine: ColumnElement[bool] = and_(run.id == claim.run_id, run.fence == claim.fence, run.state == RunState.BEGUN)
    return update(schedule_runs).where(mine)


def _read(connection: Connection, run_id: str) -> RunRecord:
    return RunRecord(**connection.execute(select(schedule_runs).where(schedule_runs.c.id == run_id)).one()._mapping)
