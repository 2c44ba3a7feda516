"""Stage 7: a job recounted, row by row: what was promised against what is in the tables."""

from collections import Counter
from collections.abc import Iterator

from sqlalchemy import Connection, Engine, func, or_, select

from pipeline.rows import Status
from pipeline.store.asked import asked, question_names
from pipeline.store.entries import row_ids_of
from pipeline.store.queries import read_progress
from pipeline.store.records import BatchState, JobState, Progress, ShardState
from pipeline.store.schema import batches, followers, jobs, results, shards
from pipeline.store.transactions import reading

_ANSWERED = (Status.OK, Status.TRUNCATED)
_ENQUEUED, _LEASED = BatchState.ENQUEUED, BatchState.LEASED


def check_integrity(engine: Engine, job_id: str) -> list[str]:
    """What is wrong, a sentence each; empty if all is well. Reads every result, so it takes its time."""
    with reading(engine) as connection:
        state, n_rows, spec_json, results_purged_at = connection.execute(
            select(jobs.c.state, jobs.c.n_rows, jobs.c.spec_json, jobs.c.results_purged_at).where(jobs.c.id == job_id)
        ).one()
        progress = read_progress(connection, job_id)
        if results_purged_at is not None:
            return [*_shard_ranges(connection, job_id, n_rows), *_marks(connection, job_id)]
        return [
            *_sums(connection, job_id, progress),
            *_shard_ranges(connection, job_id, n_rows),
            *_every_row_once(connection, job_id, state),
            *_all_that_was_asked_for(connection, job_id, spec_json),
            *_nothing_open(progress, state, n_rows),
            *_marks(connection, job_id),
        ]


def _sums(connection: Connection, job_id: str, progress: Progress) -> Iterator[str]:
    query = select(results.c.status, func.count()).where(results.c.job_id == job_id).group_by(results.c.status)
    counted = {status: count for status, count in connection.execute(query)}  # noqa: C416 - mypy takes no dict(rows)
    told = {
        Status.OK: progress.ok,
        Status.TRUNCATED: progress.truncated,
        Status.ERROR: progress.error,
        Status.CANCELLED: progress.cancelled,
    }
    for status, count in told.items():
        if count != counted.get(status, 0):
            yield f"The sums say {count} rows are {status}, the results {counted.get(status, 0)}."


def _shard_ranges(connection: Connection, job_id: str, n_rows: int | None) -> Iterator[str]:
    expected = 0
    for shard_no, row_from, row_to in connection.execute(
        select(shards.c.shard_no, shards.c.row_from, shards.c.row_to)
        .where(shards.c.job_id == job_id)
        .order_by(shards.c.shard_no)
    ):
        if row_from != expected:
            yield f"Shard {shard_no} starts at row {row_from} where row {expected} comes next."
        expected = row_to
    if n_rows is not None and expected != n_rows:
        yield f"The shards end at row {expected}, the job has {n_rows}."


def _every_row_once(connection: Connection, job_id: str, state: JobState) -> Iterator[str]:
    """A row of an encoded shard has a result or is in one open batch; a cancelled job's rows all have a result."""
    has_result = set(connection.scalars(select(results.c.row_id).where(results.c.job_id == job_id)))
    waiting = Counter(
        row_id
        for row_ids in connection.scalars(
            select(batches.c.row_ids).where(batches.c.job_id == job_id, batches.c.finished_at.is_(None))
        )
        for row_id in row_ids
    )
    query = select(shards.c.row_from, shards.c.row_to, shards.c.row_ids).where(shards.c.job_id == job_id)
    if state is not JobState.CANCELLED:
        query = query.where(shards.c.state == ShardState.ENCODED)
        waiting.update(connection.scalars(select(followers.c.row_id).where(followers.c.job_id == job_id)))
    expected = Counter(row_id for shard in connection.execute(query) for row_id in row_ids_of(shard))
    yield from _named("in two shards", {row_id for row_id, times in expected.items() if times > 1})
    yield from _named("lost: they have no result and are in no open batch", expected.keys() - has_result - set(waiting))
    yield from _named("answered and yet in an open batch", has_result & set(waiting))
    yield from _named("in two open batches", {row_id for row_id, times in waiting.items() if times > 1})
    yield from _named("not of the encoded shards", (has_result | set(waiting)) - expected.keys())


def _all_that_was_asked_for(connection: Connection, job_id: str, spec_json: str) -> Iterator[str]:
    """Answered rows have all their samples, where there is more than one to a row, and logprobs, where asked for; and
    where there are several questions, each row the name of its own."""
    of_questions, names = asked(spec_json), question_names(spec_json)
    query = select(
        results.c.row_id,
        results.c.status,
        results.c.samples,
        results.c.logprobs.is_not(None).label("has_logprobs"),
        results.c.question,
    )
    odd_samples, odd_logprobs, odd_names = set(), set(), set()
    for row in connection.execute(query.where(results.c.job_id == job_id).execution_options(yield_per=1000)):
        place = row.row_id % len(of_questions)
        spec = of_questions[place]
        n, with_logprobs = spec.get("n", 1), spec.get("logprobs") is not None
        answered = row.status in _ANSWERED
        if len(row.samples) != (n if n > 1 and answered else 0):
            odd_samples.add(row.row_id)
        if row.has_logprobs != (with_logprobs and answered):
            odd_logprobs.add(row.row_id)
        if row.question != (names[place] if names else None):
            odd_names.add(row.row_id)
    yield from _named("recorded with more samples than they should have, or fewer", odd_samples)
    yield from _named("recorded without logprobs that were asked for, or with some that were not", odd_logprobs)
    yield from _named("recorded under another question than their own", odd_names)


def _named(what: str, row_ids: set[int]) -> Iterator[str]:
    if row_ids:
        some = ", ".join(str(row_id) for row_id in sorted(row_ids)[:5])
        yield f"{len(row_ids)} rows are {what}: {some}{', ...' if len(row_ids) > 5 else ''}."


def _marks(connection: Connection, job_id: str) -> Iterator[str]:
    """What is enqueued or leased tells since when; what is leased, by whom and until when; and nothing else does."""
    for table, what in ((shards, "shards"), (batches, "batches")):
        in_flight, leased = (table.c.state.in_(states) for states in ((_ENQUEUED, _LEASED), (_LEASED,)))
        odd = or_(
            in_flight == table.c.enqueued_at.is_(None),
            leased == table.c.lease_until.is_(None),
            leased == table.c.lease_owner.is_(None),
        )
        count = connection.scalar(select(func.count()).where(table.c.job_id == job_id, odd))
        if count:
            yield f"{count} {what} are marked as enqueued or leased where they are not, or the other way round."


def _nothing_open(progress: Progress, state: JobState, n_rows: int | None) -> Iterator[str]:
    if state not in (JobState.DONE, JobState.CANCELLED):
        return
    for open_state in (BatchState.PENDING, _ENQUEUED, _LEASED):
        if progress.batches[open_state]:
            yield f"The job is {state}, but {progress.batches[open_state]} batches are {open_state}."
    if state is JobState.DONE and progress.finished != n_rows:
        yield f"The job is done with {progress.finished} results for {n_rows} rows."
