"""Stage 7: what jobs that ended long ago still take up, and its end: their shards, their tokens, their results.

A job is marked before anything of it is deleted, so that nobody goes on with half of it; what an interrupted purge left
is found by the next one.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from sqlalchemy import Engine, Text, delete, func, select, type_coerce

from pipeline.ingest.places import delete as delete_place
from pipeline.ingest.places import exists, facts, files_below, is_folder, join, local_path
from pipeline.ingest.token_files import attempts
from pipeline.store.entries import hold_job, job_record, set_job
from pipeline.store.outbox import token_files
from pipeline.store.queries import list_pages, list_shards
from pipeline.store.records import JobRecord, JobState
from pipeline.store.schema import followers, jobs, results
from pipeline.store.transactions import moment, reading, writing

Part = Literal["shards", "tokens", "results"]

_ENDED = (JobState.DONE, JobState.CANCELLED)
#: Deleted in one transaction, so that nobody waits long for the database.
_AT_ONCE = 10_000
#: Of a result, those whose length varies, and about what the others take.
_LONG = ("key", "output", "label", "parsed", "error", "samples", "logprobs", "labels", "scores")
_SHORT_BYTES = 150


def ended_before(engine: Engine, age_s: float) -> list[JobRecord]:
    """Jobs that are done or cancelled, and were so this long ago, the oldest first."""
    with reading(engine) as connection:
        before = moment(connection) - age_s
        query = select(jobs).where(jobs.c.state.in_(_ENDED), jobs.c.finished_at < before).order_by(jobs.c.finished_at)
        return [job_record(row) for row in connection.execute(query)]


def held_bytes(engine: Engine, job: JobRecord, part: Part) -> int:
    """What it takes up; of results, about. Raises TryAgain where a file system cannot be reached."""
    if part != "results":
        return sum(facts(place)[1] for place in _files(engine, job, part))
    lengths = sum((func.coalesce(func.length(type_coerce(results.c[name], Text)), 0) for name in _LONG), _SHORT_BYTES)
    with reading(engine) as connection:
        query = select(func.sum(lengths)).where(results.c.job_id == job.id)
        return int(connection.scalar(query) or 0)


def purge(engine: Engine, job: JobRecord, part: Part) -> bool:
    """Whether it is gone; False, and nothing happened, where the job goes on again. May be called again."""
    if not _mark(engine, job, part):
        return False
    if part == "results":
        _delete_results(engine, job.id)
    else:
        for place in list(_files(engine, job, part)):
            delete_place(place)
    return True


def _mark(engine: Engine, job: JobRecord, part: Part) -> bool:
    with writing(engine) as connection:
        now = hold_job(connection, job.id)
        if now.state not in _ENDED or now.finished_at != job.finished_at:
            return False
        if part == "shards" and now.shards_purged_at is None:
            set_job(connection, job.id, shards_purged_at=moment(connection))
        if part == "results" and now.results_purged_at is None:
            set_job(connection, job.id, results_purged_at=moment(connection))
    return True


def _delete_results(engine: Engine, job_id: str) -> None:
    some = select(results.c.row_id).where(results.c.job_id == job_id).limit(_AT_ONCE)
    deleted = _AT_ONCE
    while deleted == _AT_ONCE:
        with writing(engine) as connection:
            gone = delete(results).where(results.c.job_id == job_id, results.c.row_id.in_(some.scalar_subquery()))
            deleted = connection.execute(gone).rowcount
    with writing(engine) as connection:
        connection.execute(delete(followers).where(followers.c.job_id == job_id))


def _files(engine: Engine, job: JobRecord, part: Part) -> Iterator[str]:
    """Those that are there; with the shards goes the copy of the tokenizer, which encoded them."""
    if part == "tokens":
        with reading(engine) as connection:
            written = token_files(connection, [job.id])
        places = [place for tokens, fence in written for place in attempts(tokens, fence)]
    else:
        cut = [shard.path for shard in list_shards(engine, job.id)] + [page.path for page in list_pages(engine, job.id)]
        places = [*dict.fromkeys(cut), *([job.tokenizer] if job.tokenizer else [])]
    for place in places:
        if is_folder(place):
            yield from _below(place)
        elif exists(place):
            yield place


def _below(folder: str) -> list[str]:
    path = local_path(folder)
    if path is None:
        return [join(folder, name) for name in files_below(folder)]
    return [str(found) for found in sorted(Path(path).rglob("*")) if found.is_file()]
