"""`pipeline schedule`: jobs that are submitted night after night, and what came of each night."""

import json
import shlex

import click

from jobs import exit_codes
from jobs.job_name import schedule_argument
from jobs.manner import Manner, manner_flags
from jobs.schedule_add import add
from jobs.tables import print_table
from pipeline.errors import NotFoundError, PipelineError
from pipeline.settings import Settings
from pipeline.store.database import Database, existing_database, no_schedules
from pipeline.store.schedule_records import RunClaim
from pipeline.store.schedule_runs import ScheduleRuns
from pipeline.store.schedules import Schedules
from pipeline.timetable import Timetable

#: Runs that `show` and its JSON tell of.
_RUNS = 14


@click.group(short_help="Submit a job night after night.")
def schedule() -> None:
    """Submit a job night after night.

    A fleet's dispatcher (`pipeline up`, `pipeline dispatcher`) starts the runs of all schedules. Where there is none,
    have cron run `pipeline schedule tick`.
    """


schedule.add_command(add)


@schedule.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON array.")
def list_all(as_json: bool) -> None:
    """List all schedules, with what came of the last run of each.

    \b
    Example:
      pipeline schedule list
    """
    from jobs.schedule_shown import LIST_COLUMNS, list_row, shown_runs
    from jobs.schedule_shown import as_json as described

    try:
        settings = Settings.from_environment()
        database = existing_database(settings, no_schedules)
        found = Schedules(database).some()
    except NotFoundError as none:
        click.echo("[]" if as_json else none, err=not as_json)
        return
    if as_json:
        told = [described(settings.home, database, one, shown_runs(database, one, 1)) for one in found]
        click.echo(json.dumps(told, indent=2, ensure_ascii=False))
    else:
        print_table(LIST_COLUMNS, [list_row(settings.home, database, one) for one in found])


@schedule.command()
@schedule_argument
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def show(name: str, as_json: bool) -> None:
    """Tell of a schedule: when it runs, what it submits, and what came of its last runs.

    \b
    Example:
      pipeline schedule show reviews
    """
    from jobs.schedule_shown import RUN_COLUMNS, facts, run_row, shown_runs, unattended, why_anew
    from jobs.schedule_shown import as_json as described

    settings = Settings.from_environment()
    database = existing_database(settings, no_schedules)
    found = Schedules(database).find(name)
    runs = shown_runs(database, found, _RUNS)
    if as_json:
        click.echo(json.dumps(described(settings.home, database, found, runs), indent=2, ensure_ascii=False))
        return
    for title, fact in facts(found):
        click.echo(f"{title:<10}{fact}")
    for remark in (unattended(found, Schedules(database).now()), why_anew(settings.home, database, found)):
        if remark is not None:
            click.echo(f"\n{remark}")
    click.echo()
    if runs:
        print_table(RUN_COLUMNS, [run_row(database, found, run) for run in runs])
    else:
        click.echo("It has not run yet.")


@schedule.command("next")
@schedule_argument
@click.option("--count", type=click.IntRange(1, 1000), default=5, show_default=True, help="How many.")
def next_times(name: str, count: int) -> None:
    """Tell when a schedule runs next, and what daylight saving makes of it.

    A time that does not exist on a night comes at the end of the gap; one that comes twice counts once. Where minute
    or hour of the cron line have a *, runs follow the clock as it goes.

    \b
    Example:
      pipeline schedule next reviews
    """
    from jobs.schedule_shown import NEXT_COLUMNS, next_rows

    schedules = Schedules(_database())
    found = schedules.find(name)
    print_table(NEXT_COLUMNS, next_rows(found, schedules.now(), count))


@schedule.command()
@schedule_argument
def pause(name: str) -> None:
    """Start no run of a schedule until it is resumed. What is under way goes on.

    \b
    Example:
      pipeline schedule pause reviews
    """
    schedules = Schedules(_database())
    schedules.pause(schedules.find(name))
    click.echo(f"{name} is paused; `pipeline schedule resume {shlex.quote(name)}` goes on with it.")


@schedule.command()
@schedule_argument
def resume(name: str) -> None:
    """Go on with a schedule that was paused, from its next time on.

    \b
    Example:
      pipeline schedule resume reviews
    """
    schedules = Schedules(_database())
    found = schedules.find(name)
    timetable = Timetable(found.cron, found.zone)
    (planned,) = timetable.next(schedules.now(), 1)
    was_paused = schedules.resume(found, planned.at.timestamp())
    so = "" if was_paused else "is not paused, and "
    click.echo(f"{name} {so}runs next at {planned.at:%Y-%m-%d %H:%M}, {found.zone}.")


@schedule.command()
@schedule_argument
def remove(name: str) -> None:
    """Forget a schedule and its runs. Their jobs stay, and those that are under way go on.

    \b
    Example:
      pipeline schedule remove reviews
    """
    database = _database()
    schedules = Schedules(database)
    found = schedules.find(name)
    lost = [run.job_name for run in ScheduleRuns(database).open(found) if run.job_id is None]
    schedules.remove(found)
    click.echo(f"{name} is removed. Its jobs stay: pipeline jobs")
    if lost:
        click.echo(f"A run that was to become the job {', '.join(lost)} has none yet, and comes to nothing.", err=True)


@schedule.command("run-now")
@schedule_argument
@manner_flags
def run_now(name: str, wait: bool, here: bool, as_json: bool) -> None:
    """Start a run of a schedule at once, besides its times: in the fleet, or, where there is none, in this process.

    \b
    Example:
      pipeline schedule run-now reviews
    """
    from jobs.ticking import run_at_once

    status = run_at_once(Settings.from_environment(), name, Manner(wait, here, as_json))
    click.get_current_context().exit(status)


@schedule.command()
def tick() -> None:
    """Look at the clock once: start all runs that are due, one job after another, and end when they are done.

    For cron, where no fleet's dispatcher does it. While one such process is at work, another one starts nothing.

    \b
    Example:
      pipeline schedule tick
    """
    from jobs.ticking import tick_once

    click.get_current_context().exit(tick_once(Settings.from_environment()))


@schedule.command("submit-run", hidden=True)
@click.argument("run_id")
@click.argument("fence", type=int)
@click.argument("attempts", type=int)
def submit_run(run_id: str, fence: int, attempts: int) -> None:
    """What a dispatcher starts for each run."""
    from jobs import scheduled_run

    try:
        scheduled_run.submit_run(Settings.from_environment(), RunClaim(run_id, fence, attempts), Manner())
    except PipelineError as error:
        # It is recorded with the run; to the dispatcher nothing is wrong.
        click.echo(f"A run of a schedule: {error}", err=True)
        click.get_current_context().exit(exit_codes.OK)


def _database() -> Database:
    """Raises NotFoundError where there is none: who looks in the wrong place is told so."""
    return existing_database(Settings.from_environment(), no_schedules)
