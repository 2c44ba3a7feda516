"""Schedules, their runs and their next times, as `schedule list`, `show` and `next` tell them."""

import math
from collections.abc import Iterator
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path

from jobs.tables import Column
from pipeline.errors import JobError, NotFoundError
from pipeline.freshness import asks_anew
from pipeline.spec import JobSpec
from pipeline.store.database import Database
from pipeline.store.differences import difference_of, last_job
from pipeline.store.lookup import read_job
from pipeline.store.notices import Notices
from pipeline.store.schedule_records import Difference, RunRecord, RunState, ScheduleRecord
from pipeline.store.schedules import Schedules
from pipeline.timetable import Timetable

LIST_COLUMNS = (
    Column("NAME"),
    Column("STATE"),
    Column("NEXT"),
    Column("LAST"),
    Column("ENDED"),
    Column("NOTE", "text"),
)
RUN_COLUMNS = (Column("FOR"), Column("STATE"), Column("JOB"), Column("ROWS", "text"), Column("NOTE", "prose"))
NEXT_COLUMNS = (Column("TIME"), Column("UTC"), Column("NOTE", "text"))

#: A cron that runs `tick` does so this often at least.
_LOOKED_AT_S = 3600.0
#: Of a run, how its rows stand beside those of the run before it.
_WORDS = {"new": "new", "reused": "reused", "changed": "changed", "again": "tried again", "gone": "gone"}


def difference_words(difference: Difference) -> str:
    """`3 new, 90 reused, 1 changed, 2 gone`."""
    counts = asdict(difference)
    return ", ".join(f"{counts[name]:,} {word}" for name, word in _WORDS.items() if counts[name]) or "no rows"


def why_anew(home: Path, database: Database, schedule: ScheduleRecord, before: float = math.inf) -> str | None:
    """Of an incremental schedule, what has changed since its last run for a time before this, so that all rows will be
    answered anew."""
    last = last_job(database, schedule.id, before) if schedule.incremental else None
    if last is None:
        return None
    spec = JobSpec.model_validate_json(schedule.spec_json)
    return asks_anew(spec, _model_digest(home, spec), last)


def unattended(schedule: ScheduleRecord, now: float) -> str | None:
    """A time that has come is recorded by the first who looks at the clock, so one that lies back tells of nobody."""
    if schedule.paused_at is not None or now - schedule.next_at < _LOOKED_AT_S:
        return None
    return (
        f"Nobody has looked at the clock since {_local(schedule, schedule.next_at)}: leave `pipeline up` running, or "
        "have cron run `pipeline schedule tick`."
    )


def list_row(home: Path, database: Database, schedule: ScheduleRecord) -> list[str]:
    last = next(iter(shown_runs(database, schedule, 1)), None)
    return [
        schedule.name,
        "active" if schedule.paused_at is None else "paused",
        "" if schedule.paused_at is not None else _local(schedule, schedule.next_at),
        "" if last is None else last.state,
        "" if last is None or last.finished_at is None else _local(schedule, last.finished_at),
        " ".join(_notes(home, database, schedule, last)),
    ]


def shown_runs(database: Database, schedule: ScheduleRecord, limit: int) -> list[RunRecord]:
    """The newest first; the note of one that is held up is that of its job."""
    runs = Schedules(database).runs(schedule, limit)
    return [_as_its_job(database, run) if run.state is RunState.RUNNING else run for run in runs]


def _as_its_job(database: Database, run: RunRecord) -> RunRecord:
    try:
        job = read_job(database, str(run.job_id))
    except NotFoundError:
        return run
    return run if job.paused_at is None else replace(run, note=f"It is paused: {job.error or 'by a person'}")


def run_row(database: Database, schedule: ScheduleRecord, run: RunRecord) -> list[str]:
    difference = difference_of(run)
    notes = [note for note in (run.note, _unsent(database, run)) if note is not None]
    job = run.job_name if run.job_id is not None else ""
    rows = "" if difference is None else difference_words(difference)
    return [_local(schedule, run.scheduled_for), run.state, job, rows, " ".join(notes)]


def facts(schedule: ScheduleRecord) -> Iterator[tuple[str, str]]:
    """The lines of `show`, each with its name."""
    spec, timetable = JobSpec.model_validate_json(schedule.spec_json), Timetable(schedule.cron, schedule.zone)
    yield "when", f"{timetable.explained()} ({schedule.cron}), {schedule.zone}"
    paused = schedule.paused_at is not None
    yield "next", "paused" if paused else _local(schedule, schedule.next_at)
    yield "job", f"read from {schedule.job_file} on {_local(schedule, schedule.kept_at)}, with all that it refers to"
    yield "", "what was changed there since counts once `pipeline schedule add --replace` reads it again"
    yield "inputs", ", ".join(spec.inputs) + "; looked for at each run"
    yield "model", spec.model
    yield "names", schedule.job_name
    yield "missed", f"a run is started up to {schedule.grace_s / 3600:g} hours late"
    yield "overlap", schedule.overlap
    if schedule.incremental:
        yield "answers", "rows that an earlier run has answered are not answered again"
    if spec.notify is not None:
        yield "notice", spec.notify.shown


def next_rows(schedule: ScheduleRecord, now: float, count: int) -> list[list[str]]:
    times = Timetable(schedule.cron, schedule.zone).next(now, count)
    return [
        [f"{planned.at:%a %Y-%m-%d %H:%M %Z}", f"{planned.at.astimezone(UTC):%Y-%m-%d %H:%M}", planned.remark or ""]
        for planned in times
    ]


def as_json(home: Path, database: Database, schedule: ScheduleRecord, runs: list[RunRecord]) -> dict[str, object]:
    """Times are ISO 8601 in the schedule's zone. The job's fields are as they are kept, less the webhook."""
    spec = JobSpec.model_validate_json(schedule.spec_json)
    return {
        "name": schedule.name,
        "cron": schedule.cron,
        "tz": schedule.zone,
        "next": None if schedule.paused_at is not None else _iso(schedule, schedule.next_at),
        "paused": schedule.paused_at is not None,
        "overlap": schedule.overlap,
        "grace_seconds": schedule.grace_s,
        "incremental": schedule.incremental,
        "job_file": schedule.job_file,
        "job_name": schedule.job_name,
        "job": spec.model_dump(mode="json", exclude={"name", "notify"}, exclude_defaults=True),
        "notify": spec.notify and spec.notify.shown,
        "note": why_anew(home, database, schedule),
        "runs": [_run_json(database, schedule, run) for run in runs],
    }


def _run_json(database: Database, schedule: ScheduleRecord, run: RunRecord) -> dict[str, object]:
    difference = difference_of(run)
    return {
        "scheduled_for": _iso(schedule, run.scheduled_for),
        "state": run.state,
        "job": None if run.job_id is None else run.job_name,
        "note": run.note,
        "notice_error": _unsent(database, run),
        "difference": None if difference is None else asdict(difference),
    }


def _unsent(database: Database, run: RunRecord) -> str | None:
    return Notices(database).unsent(run_id=run.id, job_id=run.job_id)


def _notes(home: Path, database: Database, schedule: ScheduleRecord, last: RunRecord | None) -> Iterator[str]:
    yield from filter(None, (unattended(schedule, Schedules(database).now()),))
    if last is not None:
        # What was to be known of a run before it began is over when it is done.
        yield from filter(None, (last.note if last.state is not RunState.DONE else None, _unsent(database, last)))
    anew = why_anew(home, database, schedule)
    if anew is not None and (last is None or last.state is RunState.DONE or anew != last.note):
        yield anew


def _model_digest(home: Path, spec: JobSpec) -> str | None:
    """None where the model is not on this machine: nobody is asked over a network."""
    from jobs.checkpoint import find_checkpoint
    from pipeline.inference.checkpoint import SMALL_MODEL

    if spec.model != SMALL_MODEL and not Path(spec.model).exists():
        return None
    try:
        return find_checkpoint(home, spec.model, spec.adapter).digest
    except JobError:
        return None


def _local(schedule: ScheduleRecord, at: float) -> str:
    return f"{_at(schedule, at):%Y-%m-%d %H:%M %Z}"


def _iso(schedule: ScheduleRecord, at: float) -> str:
    return _at(schedule, at).isoformat(timespec="seconds")


def _at(schedule: ScheduleRecord, at: float) -> datetime:
    return datetime.fromtimestamp(at, Timetable(schedule.cron, schedule.zone).zone)
