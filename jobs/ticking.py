"""What `schedule tick` and `schedule run-now` do in the foreground, with a fleet or without one."""

import shlex
import signal
import sys

import click
from filelock import FileLock, Timeout

from jobs import exit_codes
from jobs.fleet import there_is_a_fleet
from jobs.manner import Manner
from jobs.notices import send_notices
from jobs.scheduled_run import submit_run
from pipeline.errors import PipelineError, RefusedError
from pipeline.settings import Settings
from pipeline.store.database import Database, existing_database, no_schedules
from pipeline.store.schedule_records import Overlap, RunClaim, RunRecord, RunState, ScheduleRecord
from pipeline.store.schedule_runs import ScheduleRuns
from pipeline.store.schedules import Schedules
from pipeline.timetable import Timetable
from workers.submissions import make_ticker
from workers.ticker import Ticker, job_name


def tick_once(settings: Settings) -> int:
    """The exit status: that of the last run that went wrong. Raises NotFoundError where there are no schedules, as
    where it is started in a wrong directory."""
    database = existing_database(settings, no_schedules)
    Schedules(database).some()
    home = settings.make_home()
    ticker = make_ticker(database)
    try:
        with FileLock(home / "tick.lock", timeout=0):
            return _start_all(settings, database, ticker)
    except Timeout:
        ticker.tick(settings.lease_s, most=0)
        click.echo("Another `pipeline schedule tick` is at work here, and goes on with what is due.", err=True)
        return exit_codes.OK


def run_at_once(settings: Settings, name: str, manner: Manner) -> int:
    """The exit status. Raises RefusedError where a run of it is not over."""
    database = existing_database(settings, no_schedules)
    settings.make_home()
    runs = ScheduleRuns(database)
    schedule = Schedules(database).find(name)
    runs.close_ended()
    claim = _stopped_run(settings, runs, schedule)
    if claim is None:
        _make_room(runs, make_ticker(database), schedule)
        timetable = Timetable(schedule.cron, schedule.zone)
        run = runs.record_now(schedule, job_name(schedule, timetable, Schedules(database).now()))
        claim = runs.claim(run, settings.lease_s)
    if claim is None:
        raise RefusedError(f"The run of {name} was begun by another process.")
    try:
        status = _submitted(settings, runs, claim, manner)
    finally:
        _send(settings, database)
    if status == exit_codes.STOPPED and any(run.state is RunState.DUE for run in runs.open(schedule)):
        again = f"pipeline schedule run-now {shlex.quote(name)}"
        click.echo(f"The run is not over: `{again}`, or the next tick, goes on with it.", err=True)
    return status


def _start_all(settings: Settings, database: Database, ticker: Ticker) -> int:
    status = exit_codes.OK
    while True:
        claims = ticker.tick(settings.lease_s, most=1)
        _send(settings, database)
        if not claims:
            return status
        try:
            one = _submitted(settings, ScheduleRuns(database), claims[0], Manner(alone=False))
        except PipelineError as error:
            click.echo(f"Error: {error}", err=True)
            one = exit_codes.FAILED
        sys.stdout.flush()
        if one == exit_codes.STOPPED:
            click.echo("The next tick goes on where this one stopped.", err=True)
            _send(settings, database)
            return one
        status = one or status


def _submitted(settings: Settings, runs: ScheduleRuns, claim: RunClaim, manner: Manner) -> int:
    """The exit status. Ctrl-C, however often and whenever it comes, leaves the run to whoever looks next."""
    try:
        return submit_run(settings, claim, manner)
    except KeyboardInterrupt:
        heeded = signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            runs.stop(claim)
        finally:
            signal.signal(signal.SIGINT, heeded)
        return exit_codes.STOPPED


def _stopped_run(settings: Settings, runs: ScheduleRuns, schedule: ScheduleRecord) -> RunClaim | None:
    """The earliest that is not over, if nobody is at it, and none is to take its place."""
    earlier = runs.open(schedule)
    if not earlier or schedule.overlap is Overlap.CANCEL:
        return None
    claim = runs.claim(earlier[0], settings.lease_s)
    if claim is not None:
        click.echo(f"This goes on with the run before it, {earlier[0].job_name}, which is not over.", err=True)
    return claim


def _make_room(runs: ScheduleRuns, ticker: Ticker, schedule: ScheduleRecord) -> None:
    earlier: list[RunRecord] = runs.open(schedule)
    if earlier and schedule.overlap is not Overlap.CANCEL:
        first = earlier[0]
        told = "" if first.note is None else f" ({first.note})"
        way = (
            "where its process was killed, try again in a minute"
            if first.job_id is None
            else f"stop it: pipeline cancel {shlex.quote(first.job_name)}"
        )
        raise RefusedError(f"The run before it, {first.job_name}, is not over{told}. Let it end, or {way}")
    for run in earlier:
        ticker.supersede(run)


def _send(settings: Settings, database: Database) -> None:
    """A fleet's dispatcher does it by itself, and knows the URLs."""
    if not there_is_a_fleet(settings, database):
        send_notices(database)
