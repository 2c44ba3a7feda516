"""What a clock does to schedules: times that have come become runs, and runs that may begin are begun.

A dispatcher ticks every second, `pipeline schedule tick` once. All that is decided is in the database, so that any
number of tickers, alive or dying, start each run once.
"""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime

from pipeline.errors import JobError, RefusedError
from pipeline.run_names import filled
from pipeline.store.schedule_records import Overlap, RunClaim, RunRecord, RunState, ScheduleRecord
from pipeline.store.schedule_runs import NewRun, ScheduleRuns
from pipeline.store.schedules import Schedules
from pipeline.timetable import Due, Timetable

_LOG = logging.getLogger(__name__)


class Ticker:
    """`cancel` stops a job, by its id, that a later run takes the place of."""

    def __init__(self, schedules: Schedules, runs: ScheduleRuns, cancel: Callable[[str], None]) -> None:
        self._schedules, self._runs, self._cancel = schedules, runs, cancel

    def tick(self, lease_s: float, most: int | None = None) -> list[RunClaim]:
        """The runs that the caller is to submit now, so many at most. Raises TryAgain where the database is away."""
        self._runs.close_ended()
        now = self._schedules.now()
        for schedule in self._schedules.all():
            if schedule.paused_at is None and schedule.next_at <= now:
                with _apart(schedule):
                    self._record(schedule, now)
        for run in self._runs.overlapped():
            self.supersede(run)
        return self._runs.claim_all(lease_s, most)

    def supersede(self, run: RunRecord) -> None:
        """Its job is cancelled, and it is over."""
        job_id = self._runs.supersede(run, "A later run took its place.")
        if job_id is not None:
            with suppress(RefusedError):  # done meanwhile
                self._cancel(job_id)
            self._runs.superseded(run)

    def _record(self, schedule: ScheduleRecord, now: float) -> None:
        timetable = Timetable(schedule.cron, schedule.zone)
        due = timetable.due(schedule.next_at, now)
        if due is not None:
            latest = self._latest(schedule, timetable, due.latest, now)
            why = "Nobody was there to start it; the one of {} stands for it."
            if latest.state is RunState.SKIPPED:
                why = "Nobody was there to start it, and the one of {} was skipped too."
            missed = _missed(schedule, timetable, due, why.format(_shown(timetable, due.latest)))
            self._runs.record(schedule, [*missed, latest], next(timetable.after(due.latest)))

    def _latest(self, schedule: ScheduleRecord, timetable: Timetable, at: float, now: float) -> NewRun:
        name = job_name(schedule, timetable, at)
        if now - at > schedule.grace_s:
            why = f"Nobody was there to start it until {_shown(timetable, now)}, which is beyond its grace time."
            return NewRun(at, name, RunState.SKIPPED, why)
        if schedule.overlap is Overlap.SKIP and (earlier := self._runs.open(schedule)):
            return NewRun(at, name, RunState.SKIPPED, f"The run before it, {earlier[-1].job_name}, was not over.")
        return NewRun(at, name)


@contextmanager
def _apart(schedule: ScheduleRecord) -> Iterator[None]:
    """What is wrong with one schedule, such as a zone that this machine does not know, holds up no other."""
    try:
        yield
    except JobError as error:
        _LOG.warning("The schedule %s: %s", schedule.name, error)


def job_name(schedule: ScheduleRecord, timetable: Timetable, at: float) -> str:
    """By the schedule's pattern, on its clock."""
    return filled(schedule.job_name, schedule.name, datetime.fromtimestamp(at, timetable.zone))


def _missed(schedule: ScheduleRecord, timetable: Timetable, due: Due, why: str) -> list[NewRun]:
    runs = [NewRun(at, job_name(schedule, timetable, at), RunState.SKIPPED, why) for at in due.missed]
    if due.untold:
        first = runs[0]
        runs[0] = NewRun(first.scheduled_for, first.job_name, first.state, f"{why} {due.untold} before it were too.")
    return runs


def _shown(timetable: Timetable, at: float) -> str:
    return f"{datetime.fromtimestamp(at, timetable.zone):%Y-%m-%d %H:%M}"
