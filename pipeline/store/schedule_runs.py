"""Each time of a schedule becomes one run, and each run one job, however many processes look at the clock.

A run is recorded under its time, which is unique, in the transaction that moves the schedule on to its next time. It is
begun under a fence and a lease, and linked to its job in the transaction that makes the job (Ledger.create_job). So a
process that dies at any point leaves a run that another one goes on with.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from uuid import uuid4

from sqlalchemy import ColumnElement, Connection, Engine, Select, and_, exists, or_, select, update
from sqlalchemy.sql.dml import Update

from pipeline.errors import RefusedError
from pipeline.store import notices
from pipeline.store.entries import INSERT
from pipeline.store.records import JobState
from pipeline.store.schedule_records import OPEN, Event, Overlap, RunClaim, RunRecord, RunState, ScheduleRecord
from pipeline.store.schema import jobs, schedule_runs, schedules
from pipeline.store.transactions import moment, reading, writing

#: How the run of a job ends that the fleet has ended.
_ENDS = {JobState.DONE: RunState.DONE, JobState.CANCELLED: RunState.CANCELLED}
_EARLIER = schedule_runs.alias("earlier")


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
            recorded = [_insert(connection, schedule, run) for run in runs]
            if runs and runs[-1].state is RunState.SKIPPED:
                notices.add_of_run(connection, Event.SKIPPED, recorded[-1], schedule.spec_json, self._now(connection))
        return True

    def record_now(self, schedule: ScheduleRecord, job_name: str) -> RunRecord:
        """Of this moment, besides the schedule's times."""
        with writing(self._engine) as connection:
            run_id = _insert(connection, schedule, NewRun(self._now(connection), job_name))
            return _read(connection, run_id)

    def open(self, schedule: ScheduleRecord) -> list[RunRecord]:
        """Those that are not over, the earliest first."""
        of_it = and_(schedule_runs.c.schedule_id == schedule.id, schedule_runs.c.state.in_(OPEN))
        with reading(self._engine) as connection:
            found = connection.execute(select(schedule_runs).where(of_it).order_by(schedule_runs.c.scheduled_for))
            return [RunRecord(**row._mapping) for row in found]

    def close_ended(self) -> None:
        """What a fleet has ended is over, and what had failed is done where a person saw to its job."""
        run = schedule_runs.c
        ended = and_(run.state == RunState.RUNNING, or_(jobs.c.id.is_(None), jobs.c.state.in_(_ENDS)))
        mended = and_(run.state == RunState.FAILED, jobs.c.state == JobState.DONE)
        query = (
            select(run.id, run.state.label("was"), jobs.c.state, jobs.c.finished_at)
            .outerjoin_from(schedule_runs, jobs, jobs.c.id == run.job_id)
            .where(or_(ended, mended))
        )
        with reading(self._engine) as connection:
            found = connection.execute(query).all()
        for run_id, was, state, finished_at in found:
            over: dict[str, object] = {"state": _ENDS.get(state, RunState.FAILED), "finished_at": finished_at}
            if state is None:
                over["note"] = "Its job was deleted before it was done."
            elif was is RunState.FAILED:
                over["note"] = None
            with writing(self._engine) as connection:
                connection.execute(update(schedule_runs).where(run.id == run_id, run.state == was).values(over))

    def overlapped(self) -> list[RunRecord]:
        """Those that a later run of their schedule, which is due, is to take the place of; and those whose place is
        taken, but whose job goes on, since whoever was to cancel it died."""
        later = schedule_runs.alias("later")
        is_due = exists().where(
            later.c.schedule_id == schedule_runs.c.schedule_id,
            later.c.scheduled_for > schedule_runs.c.scheduled_for,
            later.c.state == RunState.DUE,
        )
        goes_on = and_(schedule_runs.c.state == RunState.CANCELLED, jobs.c.state.not_in(_ENDS))
        query = (
            select(schedule_runs)
            .join(schedules, schedules.c.id == schedule_runs.c.schedule_id)
            .outerjoin(jobs, jobs.c.id == schedule_runs.c.job_id)
            .where(schedules.c.overlap == Overlap.CANCEL, is_due, or_(schedule_runs.c.state.in_(OPEN), goes_on))
        )
        with reading(self._engine) as connection:
            return [RunRecord(**row._mapping) for row in connection.execute(query)]

    def supersede(self, run: RunRecord, note: str) -> str | None:
        """Whoever is at it can make it no job any more; the id of the one that it has."""
        with writing(self._engine) as connection:
            still_open = and_(schedule_runs.c.id == run.id, schedule_runs.c.state.in_(OPEN))
            over = {"state": RunState.CANCELLED, "note": note, "finished_at": self._now(connection)}
            fence = schedule_runs.c.fence + 1
            connection.execute(update(schedule_runs).where(still_open).values(over | {"fence": fence}))
            return _read(connection, run.id).job_id

    def claim_all(self, lease_s: float, most: int | None = None) -> list[RunClaim]:
        """What may be begun now, or lost its process, and is not held up by an earlier run of its schedule; the
        earliest first, so many at most."""
        with reading(self._engine) as connection:
            now = self._now(connection)
            found = connection.execute(_claimable(now).order_by(schedule_runs.c.scheduled_for).limit(most)).all()
        if not found:  # as a rule, and then nobody need wait for this
            return []
        with writing(self._engine) as connection:
            claims = [_claim(connection, row.id, row.fence, now, lease_s) for row in found]
            return [claim for claim in claims if claim is not None]

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
            connection.execute(_held(claim).values(state=RunState.RUNNING, lease_until=None))

    def remark(self, claim: RunClaim, note: str) -> None:
        with writing(self._engine) as connection:
            connection.execute(_held(claim).values(note=note))

    def postpone(self, claim: RunClaim, pause_s: float, note: str) -> None:
        """It is due again, after so many seconds."""
        with writing(self._engine) as connection:
            until = self._now(connection) + pause_s
            connection.execute(_held(claim).values(state=RunState.DUE, lease_until=until, note=note))

    def end(self, claim: RunClaim, state: RunState, note: str | None = None) -> None:
        """Without a note, what was remarked stays. A notice tells of a failure, also where there never was a job."""
        with writing(self._engine) as connection:
            now = self._now(connection)
            over = {"state": state, "finished_at": now, "lease_until": None} | ({"note": note} if note else {})
            if not connection.execute(_held(claim).values(over)).rowcount or state is not RunState.FAILED:
                return
            run = _read(connection, claim.run_id)
            spec_json = connection.scalars(select(schedules.c.spec_json).where(schedules.c.id == run.schedule_id)).one()
            notices.add_of_run(connection, Event.FAILED, run.id, spec_json, now, run.job_id)

    def _now(self, connection: Connection) -> float:
        return moment(connection) if self._clock is None else self._clock()


def link(connection: Connection, claim: RunClaim, job_id: str) -> None:
    """The run's job is this one. Raises RefusedError where it has one, or another process has the run by now."""
    if not connection.execute(_held(claim).where(schedule_runs.c.job_id.is_(None)).values(job_id=job_id)).rowcount:
        raise RefusedError("This run of the schedule was cancelled, or another process has taken it over.")


def unlink(connection: Connection, job_id: str) -> None:
    """The job is forgotten."""
    connection.execute(update(schedule_runs).where(schedule_runs.c.job_id == job_id).values(job_id=None))


def is_begun(connection: Connection, job_id: str) -> bool:
    """Whether the job is that of a run whose process will tell how it ends."""
    of_it = and_(schedule_runs.c.job_id == job_id, schedule_runs.c.state == RunState.BEGUN)
    return bool(connection.scalar(select(exists().where(of_it))))


def _insert(connection: Connection, schedule: ScheduleRecord, run: NewRun) -> str:
    """The id of the run of that time, which may be there already."""
    there = and_(schedule_runs.c.schedule_id == schedule.id, schedule_runs.c.scheduled_for == run.scheduled_for)
    job_name = _free_name(connection, run.job_name) if run.state is RunState.DUE else run.job_name
    record = RunRecord(uuid4().hex, schedule.id, run.scheduled_for, run.state, job_name, note=run.note)
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


def _claimable(now: float) -> Select[tuple[str, int]]:
    run = schedule_runs.c
    held_up = exists().where(
        _EARLIER.c.schedule_id == run.schedule_id,
        _EARLIER.c.scheduled_for < run.scheduled_for,
        _EARLIER.c.state.in_(OPEN),
    )
    return (
        select(run.id, run.fence)
        .join(schedules, schedules.c.id == run.schedule_id)
        .where(_is_free(now), schedules.c.paused_at.is_(None), ~held_up)
    )


def _is_free(now: float) -> ColumnElement[bool]:
    """Due, and not put off; or the process that had begun it is dead."""
    run = schedule_runs.c
    is_due = and_(run.state == RunState.DUE, or_(run.lease_until.is_(None), run.lease_until <= now))
    return or_(is_due, and_(run.state == RunState.BEGUN, run.lease_until <= now))


def _claim(connection: Connection, run_id: str, fence: int, now: float, lease_s: float) -> RunClaim | None:
    run = schedule_runs.c
    free = and_(run.id == run_id, run.fence == fence, _is_free(now))
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
