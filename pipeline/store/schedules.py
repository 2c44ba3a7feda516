"""Schedules as a person makes, looks at and removes them. What comes of each of their times is in schedule_runs.py."""

from collections.abc import Callable
from dataclasses import asdict, replace

from sqlalchemy import Connection, Engine, and_, delete, insert, select, update
from sqlalchemy.exc import IntegrityError

from pipeline.errors import NotFoundError, RefusedError, nearest
from pipeline.store.database import no_schedules
from pipeline.store.schedule_records import RunRecord, ScheduleRecord
from pipeline.store.schema import schedule_runs, schedules
from pipeline.store.transactions import moment, reading, writing

#: What stays when a schedule's job is read again, so that its runs stay its own.
_KEPT = ("id", "name", "paused_at")


class Schedules:
    """`clock` tells seconds since the epoch, the database's own unless given."""

    def __init__(self, engine: Engine, clock: Callable[[], float] | None = None) -> None:
        self._engine, self._clock = engine, clock

    def add(self, schedule: ScheduleRecord) -> None:
        """Raises RefusedError for a name that is taken."""
        try:
            with writing(self._engine) as connection:
                connection.execute(insert(schedules), asdict(schedule))
        except IntegrityError as error:
            raise RefusedError(
                f'There is a schedule "{schedule.name}" already. Give another name, or --replace to read its job anew.'
            ) from error

    def replace(self, schedule: ScheduleRecord) -> ScheduleRecord:
        """The one of its name is as given from now on; its runs stay, and so does a time of theirs that has come and
        that nobody has seen yet. Raises NotFoundError."""
        with writing(self._engine) as connection:
            before = _named(connection, schedule.name)
            found = replace(schedule, **{field: getattr(before, field) for field in _KEPT})
            if (before.cron, before.zone) == (found.cron, found.zone):
                found = replace(found, next_at=min(before.next_at, found.next_at))
            connection.execute(update(schedules).where(schedules.c.id == found.id).values(asdict(found)))
            return found

    def all(self) -> list[ScheduleRecord]:
        """By name."""
        with reading(self._engine) as connection:
            return [ScheduleRecord(**row._mapping) for row in connection.execute(select(schedules).order_by("name"))]

    def some(self) -> list[ScheduleRecord]:
        """The same; raises NotFoundError where there are none."""
        if not (found := self.all()):
            raise NotFoundError(no_schedules(self._engine))
        return found

    def find(self, name: str) -> ScheduleRecord:
        """Raises NotFoundError, which helps."""
        with reading(self._engine) as connection:
            return _named(connection, name)

    def runs(self, schedule: ScheduleRecord, limit: int | None = None) -> list[RunRecord]:
        """The newest first."""
        query = select(schedule_runs).where(schedule_runs.c.schedule_id == schedule.id).limit(limit)
        with reading(self._engine) as connection:
            found = connection.execute(query.order_by(schedule_runs.c.scheduled_for.desc()))
            return [RunRecord(**row._mapping) for row in found]

    def submitted(self, schedule: ScheduleRecord, first: float, before: float) -> list[float]:
        """The times, from `first` on, of runs that have a job."""
        run = schedule_runs.c
        its = and_(run.schedule_id == schedule.id, run.scheduled_for >= first, run.scheduled_for < before)
        with reading(self._engine) as connection:
            return list(connection.scalars(select(run.scheduled_for).where(its, run.job_id.is_not(None))))

    def of(
        self, *, run_id: str | None = None, job_id: str | None = None
    ) -> tuple[RunRecord, ScheduleRecord] | tuple[None, None]:
        """The run of that id, or of that job, with its schedule; nothing for a job that is no schedule's."""
        which = schedule_runs.c.id == run_id if run_id is not None else schedule_runs.c.job_id == job_id
        with reading(self._engine) as connection:
            found = connection.execute(select(schedule_runs).where(which)).one_or_none()
            if found is None:
                return None, None
            run = RunRecord(**found._mapping)
            row = connection.execute(select(schedules).where(schedules.c.id == run.schedule_id)).one()
            return run, ScheduleRecord(**row._mapping)

    def pause(self, schedule: ScheduleRecord) -> None:
        """None of its times count until it is resumed."""
        now = self.now()
        with writing(self._engine) as connection:
            connection.execute(update(schedules).where(schedules.c.id == schedule.id).values(paused_at=now))

    def resume(self, schedule: ScheduleRecord, next_at: float) -> bool:
        """False, and nothing happened, where it is not paused."""
        paused = and_(schedules.c.id == schedule.id, schedules.c.paused_at.is_not(None))
        with writing(self._engine) as connection:
            resumed = update(schedules).where(paused).values(paused_at=None, next_at=next_at)
            return bool(connection.execute(resumed).rowcount)

    def remove(self, schedule: ScheduleRecord) -> None:
        """With what is known of its runs. Their jobs stay, and those that are not done go on."""
        with writing(self._engine) as connection:
            connection.execute(delete(schedule_runs).where(schedule_runs.c.schedule_id == schedule.id))
            connection.execute(delete(schedules).where(schedules.c.id == schedule.id))

    def now(self) -> float:
        """Seconds since the epoch, by the clock that schedules follow."""
        with reading(self._engine) as connection:
            return moment(connection) if self._clock is None else self._clock()


def _named(connection: Connection, name: str) -> ScheduleRecord:
    row = connection.execute(select(schedules).where(schedules.c.name == name)).one_or_none()
    if row is not None:
        return ScheduleRecord(**row._mapping)
    names = list(connection.scalars(select(schedules.c.name)))
    if not names:
        raise NotFoundError(no_schedules(connection.engine))
    raise NotFoundError(f'There is no schedule "{name}".{nearest(name, names)}')
