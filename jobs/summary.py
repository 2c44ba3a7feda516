"""How a job went: some of its answers, what failed and why, its figures, and what to type next."""

from collections import Counter
from collections.abc import Iterator

import click

from jobs.answers import print_answers, rows_to_show
from jobs.standing import standing
from jobs.status import print_json, tell
from jobs.tables import counted, unit
from pipeline.rows import Status
from pipeline.settings import Settings
from pipeline.spec import JobSpec
from pipeline.store.database import Database
from pipeline.store.export import Wanted
from pipeline.store.queries import stream_results
from pipeline.store.records import JobRecord

_ANSWERS_SHOWN = 12
_ERRORS_READ = 10_000


def print_summary(settings: Settings, database: Database, job: JobRecord, spec: JobSpec, *, as_json: bool) -> None:
    """On standard output."""
    found = standing(database, settings, job.id)
    if as_json:
        print_json(found)
        return
    print_answers(database, job, Wanted(limit=rows_to_show(job, _ANSWERS_SHOWN)))
    click.echo()
    for line in _errors(database, job):
        click.echo(line)
    if spec.writes and not spec.questions:
        click.echo(f"An answer had up to {counted(spec.max_tokens, 'token')}; --max-tokens changes that.\n")
    tell(found)


def _errors(database: Database, job: JobRecord) -> Iterator[str]:
    """Each kind of error once, with how often and a row to look at."""
    failed = list(stream_results(database, job.id, Status.ERROR, _ERRORS_READ))
    counts = Counter(row.error_type for row in failed)
    for kind, count in counts.most_common():
        first = next(row for row in failed if row.error_type == kind)
        question = f", {job.questions[first.row_id % len(job.questions)]}" if job.questions else ""
        yield f"{counted(count, unit(job))} ended with the error {kind}. Row {first.key}{question}: {first.error}"
    if counts:
        yield ""
