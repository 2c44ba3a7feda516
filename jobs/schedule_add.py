"""`pipeline schedule add`: reads a job once, checks all that can be checked before its first night, and keeps it."""

from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import click

from jobs.time_span import TimeSpan
from pipeline.errors import InputError, SpecError, TryAgain
from pipeline.run_names import filled, with_output_filled
from pipeline.settings import Settings
from pipeline.spec import JobSpec
from pipeline.store.database import Database, open_database
from pipeline.store.schedule_records import Overlap, ScheduleRecord
from pipeline.store.schedules import Schedules
from pipeline.timetable import Planned, Timetable, as_typed

#: Characters of a schedule's name, and of a job's, behind which a number has room.
_LONGEST_NAME, _LONGEST_JOB_NAME = 40, 60


@click.command()
@click.argument("name")
@click.argument("inputs", nargs=-1, metavar="[INPUT]...")
@click.option("--cron", required=True, metavar="LINE", help='When: "0 2 * * *" is every night at two.')
@click.option("--tz", "zone", metavar="ZONE", default="UTC", show_default=True, help="Whose clock: Europe/Berlin, ...")
@click.option("--job", "job_file", type=click.Path(path_type=Path), required=True, help="YAML file of the job.")
@click.option(
    "--name",
    "job_name",
    metavar="PATTERN",
    help="Names of the jobs, with {date}, {time}, {schedule}.  [default: the job file's name, or {schedule}-{date}]",
)
@click.option(
    "--grace", type=TimeSpan(), metavar="TIME", default="6h", show_default=True, help="How late a run may start."
)
@click.option(
    "--overlap",
    type=click.Choice([policy.value for policy in Overlap]),
    default=Overlap.SKIP.value,
    show_default=True,
    help="Where the run before it is not over: skip the new one, queue it, or cancel the old one.",
)
@click.option("--incremental", is_flag=True, help="Answer only rows that no earlier run of the schedule has answered.")
@click.option(
    "--notify-command", metavar="COMMAND", help="Run this at the end of each job, with a JSON object to read."
)
@click.option("--notify-url", metavar="URL", help="POST the same there; shown without what is behind its host.")
@click.option("--notify-url-env", metavar="VARIABLE", help="POST it to the URL in this variable of the environment.")
@click.option("--replace", "replaces", is_flag=True, help="Read the job of a schedule again; its runs stay.")
def add(
    name: str,
    inputs: tuple[str, ...],
    cron: str,
    zone: str,
    job_file: Path,
    job_name: str | None,
    grace: float,
    overlap: str,
    incremental: bool,
    replaces: bool,
    **notify: str | None,
) -> None:
    """Submit the job of a file at each time of a cron line. The file is read now, with all that it refers to, and kept;
    INPUT (files, directories, patterns, URLs) is looked for at each run.

    \b
    Example:
      pipeline schedule add reviews --cron "0 2 * * *" --tz Europe/Berlin --job examples/sentiment.yaml --incremental
    """
    _require_name(name)
    timetable = as_typed(cron, zone)
    settings = Settings.from_environment()
    database = open_database(settings)
    schedules = Schedules(database)
    if replaces:
        schedules.find(name)
    now = schedules.now()
    (first,) = timetable.next(now, 1)
    spec, pattern = _checked_job(settings, name, inputs, job_file, job_name, notify, first, incremental=incremental)
    schedule = ScheduleRecord(
        id=uuid4().hex,
        name=name,
        cron=timetable.cron,
        zone=zone,
        spec_json=spec.model_dump_json(),
        job_name=pattern,
        job_file=str(job_file.absolute()),
        grace_s=grace,
        overlap=Overlap(overlap),
        incremental=incremental,
        kept_at=now,
        next_at=first.at.timestamp(),
    )
    if replaces:
        schedule = schedules.replace(schedule)
    else:
        schedules.add(schedule)
    _tell(settings, database, schedule, first)


def _require_name(name: str) -> None:
    is_path = {"/", "\\"} & {*name} or not name.strip(".")
    if not name.isprintable() or name.startswith("-") or len(name) > _LONGEST_NAME or not name.strip() or is_path:
        raise SpecError(
            f"NAME must be printable, must not begin with -, have no / in it, and {_LONGEST_NAME} characters at most, "
            "since files may be named by it."
        )


def _checked_job(
    settings: Settings,
    name: str,
    inputs: tuple[str, ...],
    job_file: Path,
    job_name: str | None,
    notify: dict[str, str | None],
    first: Planned,
    *,
    incremental: bool,
) -> tuple[JobSpec, str]:
    """With the pattern of its names. Raises SpecError, InputError or ModelError, cheapest checks first."""
    # It takes a while to import, and no other command of schedules needs it.
    from jobs.submit import asked_spec, require_place

    hook = {flag.removeprefix("notify_"): value for flag, value in notify.items() if value is not None}
    if len(hook) > 1:
        given = " and ".join(f"--notify-{way.replace('_', '-')}" for way in hook)
        raise SpecError(f"{given} are several hooks, and a job has one; leave the others out.")
    spec, source_url = asked_spec(inputs, job_file, {"notify": hook or None})
    if "-" in spec.inputs:
        raise SpecError(
            "Standard input can be read only once, and a schedule reads its input at each run. Name a file."
        )
    if incremental and spec.temperature > 0:
        raise SpecError("--incremental has no meaning with temperature: each row draws an answer of its own.")
    pattern = job_name or spec.name or "{schedule}-{date}"
    if len(filled(pattern, name, first.at)) > _LONGEST_JOB_NAME:
        raise SpecError(f"--name {pattern}: the names have more than {_LONGEST_JOB_NAME} characters.")
    fields = spec.model_dump() | {"reuse_results": spec.reuse_results or incremental}
    JobSpec.model_validate(fields | {"name": filled(pattern, name, first.at)})
    require_place(with_output_filled(spec, name, first.at).output)
    _check_rows(replace(settings, source_url=source_url or settings.source_url), spec)
    if source_url is not None:
        click.echo("The database's password is not kept: set PIPELINE_SOURCE_URL where runs are started.", err=True)
    return JobSpec.model_validate(fields | {"name": None}), pattern


def _check_rows(settings: Settings, spec: JobSpec) -> None:
    from jobs.checkpoint import find_checkpoint
    from jobs.submit import require_job_columns
    from pipeline.source import source_of

    try:
        source = source_of(spec, settings.source_url)
    except (InputError, TryAgain) as error:
        click.echo(f"{error} It is looked for again at each run.", err=True)
    else:
        require_job_columns(spec, source)
    find_checkpoint(settings.home, spec.model, spec.adapter)


def _tell(settings: Settings, database: Database, schedule: ScheduleRecord, first: Planned) -> None:
    from jobs.fleet import there_is_a_fleet
    from jobs.schedule_shown import why_anew

    timetable = Timetable(schedule.cron, schedule.zone)
    click.echo(f"{schedule.name}: {timetable.explained()}, {schedule.zone}; next at {first.at:%Y-%m-%d %H:%M}.")
    if first.remark is not None:
        click.echo(first.remark)
    if (anew := why_anew(settings.home, database, schedule)) is not None:
        click.echo(anew)
    if not there_is_a_fleet(settings, database):
        click.echo("Nothing starts it yet: leave `pipeline up` running, or have cron run `pipeline schedule tick`.")
