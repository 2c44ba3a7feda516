"""Stage 7: how a job went, for the plots of its report. The database adds up; what comes here fits a page."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from operator import add

from sqlalchemy import BigInteger, Column, ColumnElement, Connection, Engine, Select, and_, case, cast, func, select

from pipeline.rows import Status
from pipeline.store.queries import STAGES, TOKENS, read_progress
from pipeline.store.records import BatchState, Progress
from pipeline.store.schema import batches, results
from pipeline.store.transactions import reading

#: Equal parts of the time from the first batch to the last, at most and at least, and batches in each where few.
_MOST_INTERVALS, _LEAST_INTERVALS, _BATCHES = 48, 4, 3
#: Equal parts of all shares of padding, from none to nearly all.
PADDING_PARTS = 20
_SLOWEST = 10
#: Those that answered most.
_WORKERS = 48
#: Kinds of errors, the most frequent first, and rows of each.
_KINDS, _SAMPLES = 12, 3


@dataclass(frozen=True, slots=True)
class Interval:
    """What the batches that were closed in it did."""

    place: int  #: from 0, for the time when the first batch was taken up
    batches: int
    rows: int
    tokens: Mapping[str, int]  #: by TOKENS
    seconds: Mapping[str, float]  #: by STAGES


@dataclass(frozen=True, slots=True)
class BatchCourse:
    """One batch, and where its time went."""

    batch_no: int
    rows: int
    device: str
    seconds: Mapping[str, float]  #: by STAGES


@dataclass(frozen=True, slots=True)
class WorkerCourse:
    """What one process did of the job. The span is from its first batch taken up to its latest one closed."""

    worker: str  #: as it owned its leases
    device: str
    batches: int
    rows: int
    span_s: float

    @property
    def rows_per_s(self) -> float:
        """A span of a moment counts as a millisecond."""
        return self.rows / max(self.span_s, 1e-3)


@dataclass(frozen=True, slots=True)
class ErrorSample:
    """A row that failed, less its text."""

    row_id: int
    key: str
    error: str


@dataclass(frozen=True, slots=True)
class ErrorKind:
    """All errors of one type, and the first rows that have them."""

    error_type: str
    rows: int
    samples: tuple[ErrorSample, ...]


@dataclass(frozen=True, slots=True)
class Course:
    """A job as its batches and results tell of it, at one moment.

    Lengths are tokens, with the rows that have so many: of prompts whole, and of answers, where the model answered.
    `padding` counts batches by the share of places that would be empty were their prompts padded to the longest of
    the batch: the first of PADDING_PARTS equal parts begins at none.
    """

    figures: Progress
    n_intervals: int  #: equal parts of the time from the first batch taken up to the latest one closed
    interval_s: float  #: how long each of them is
    intervals: tuple[Interval, ...]  #: those in which a batch was closed, in order
    prompt_lengths: Mapping[int, int]
    answer_lengths: Mapping[int, int]
    padding: Mapping[int, int]
    slowest: tuple[BatchCourse, ...]  #: without the wait in a queue
    workers: tuple[WorkerCourse, ...]  #: by their names; those of earlier versions are not known
    errors: tuple[ErrorKind, ...]


def course(engine: Engine, job_id: str) -> Course:
    """Raises NotFoundError. It reads every result of the job, in the database: seconds for millions of rows."""
    with reading(engine) as connection:
        figures = read_progress(connection, job_id)
        n_intervals = max(_LEAST_INTERVALS, min(_MOST_INTERVALS, figures.batches[BatchState.DONE] // _BATCHES))
        interval_s = _interval_s(figures, n_intervals)
        return Course(
            figures=figures,
            n_intervals=n_intervals,
            interval_s=interval_s,
            intervals=_intervals(connection, job_id, figures, n_intervals, interval_s),
            prompt_lengths=_counted(connection, _lengths(job_id, results.c.prompt_tokens)),
            answer_lengths=_counted(connection, _lengths(job_id, results.c.output_tokens)),
            padding=_counted(connection, _padding(job_id)),
            slowest=_slowest(connection, job_id),
            workers=_workers(connection, job_id),
            errors=_errors(connection, job_id),
        )


def error_counts(engine: Engine, job_id: str) -> dict[str, int]:
    """Rows by the type of their error, the most frequent first. It reads every result of the job, in the database."""
    rows = func.count().label("rows")
    failed = select(results.c.error_type, rows).where(_failed(job_id)).group_by(results.c.error_type)
    with reading(engine) as connection:
        return {row.error_type: row.rows for row in connection.execute(failed.order_by(rows.desc()))}


def _interval_s(figures: Progress, n_intervals: int) -> float:
    """Never 0, so that a job of one moment has an interval too."""
    if figures.started_at is None or figures.finished_at is None:
        return 1.0
    return max((figures.finished_at - figures.started_at) / n_intervals, 1e-3)


def _intervals(
    connection: Connection, job_id: str, figures: Progress, n_intervals: int, interval_s: float
) -> tuple[Interval, ...]:
    if figures.started_at is None:
        return ()
    since = cast(func.floor((batches.c.finished_at - figures.started_at) / interval_s), BigInteger)
    # The very last moment belongs to the last interval.
    place = case((since >= n_intervals, n_intervals - 1), else_=since).label("place")
    sums = [func.sum(batches.c[name]).label(name) for name in (*TOKENS, *(f"{stage}_s" for stage in STAGES))]
    rows = func.sum(_ended_rows()).label("rows")
    query = select(place, func.count().label("n"), rows, *sums).where(_done(job_id)).group_by(place).order_by(place)
    return tuple(
        Interval(
            place=row.place,
            batches=row.n,
            rows=int(row.rows),
            tokens={name: int(getattr(row, name)) for name in TOKENS},
            seconds=_seconds(row),
        )
        for row in connection.execute(query)
    )


def _lengths(job_id: str, tokens: Column[int]) -> Select[int, int]:
    return select(tokens, func.count()).where(_answered(job_id)).group_by(tokens)


def _padding(job_id: str) -> Select[int, int]:
    """By batches: places of a block as wide as the longest prompt, of which those without a token are padding."""
    longest = func.max(results.c.prompt_tokens)
    batch = (
        select(
            (func.count() * longest).label("places"),
            cast(func.sum(results.c.prompt_tokens), BigInteger).label("tokens"),
        )
        .where(_answered(job_id))
        .group_by(results.c.batch_no)
        .having(longest > 0)
        .subquery()
    )
    part = (PADDING_PARTS * (batch.c.places - batch.c.tokens) // batch.c.places).label("part")
    return select(part, func.count()).group_by(part)


def _slowest(connection: Connection, job_id: str) -> tuple[BatchCourse, ...]:
    stages = {stage: batches.c[f"{stage}_s"] for stage in STAGES}
    worked = reduce(add, (seconds for stage, seconds in stages.items() if stage != "queue"))
    query = (
        select(batches.c.batch_no, _ended_rows().label("rows"), batches.c.device, *stages.values())
        .where(_done(job_id))
        .order_by(worked.desc(), batches.c.batch_no)
        .limit(_SLOWEST)
    )
    return tuple(
        BatchCourse(row.batch_no, row.rows, row.device or "", _seconds(row)) for row in connection.execute(query)
    )


def _workers(connection: Connection, job_id: str) -> tuple[WorkerCourse, ...]:
    worker, rows = batches.c.worker, func.sum(_ended_rows()).label("rows")
    span = (func.max(batches.c.finished_at) - func.min(batches.c.started_at)).label("span_s")
    query = (
        select(worker, func.min(batches.c.device).label("device"), func.count().label("n"), rows, span)
        .where(_done(job_id), worker.is_not(None))
        .group_by(worker)
        .order_by(rows.desc(), worker)
        .limit(_WORKERS)
    )
    found = [
        WorkerCourse(row.worker, row.device or "", row.n, int(row.rows), row.span_s)
        for row in connection.execute(query)
    ]
    return tuple(sorted(found, key=lambda each: each.worker))


def _errors(connection: Connection, job_id: str) -> tuple[ErrorKind, ...]:
    """In one walk over the results."""
    kind = results.c.error_type
    numbered = (
        select(
            kind,
            results.c.row_id,
            results.c.key,
            results.c.error,
            func.count().over(partition_by=kind).label("rows"),
            func.row_number().over(partition_by=kind, order_by=results.c.row_id).label("place"),
        )
        .where(_failed(job_id))
        .subquery()
    )
    query = (
        select(numbered)
        .where(numbered.c.place <= _SAMPLES)
        .order_by(numbered.c.rows.desc(), numbered.c.error_type, numbered.c.place)
    )
    kinds: dict[str, tuple[int, list[ErrorSample]]] = {}
    for row in connection.execute(query.limit(_KINDS * _SAMPLES)):
        kinds.setdefault(row.error_type, (row.rows, []))[1].append(ErrorSample(row.row_id, row.key, row.error))
    return tuple(ErrorKind(name, rows, tuple(samples)) for name, (rows, samples) in kinds.items())


def _counted(connection: Connection, query: Select[int, int]) -> dict[int, int]:
    return {int(value): count for value, count in sorted(map(tuple, connection.execute(query)))}


def _seconds(row: object) -> dict[str, float]:
    return {stage: float(getattr(row, f"{stage}_s")) for stage in STAGES}


def _ended_rows() -> ColumnElement[int]:
    """Rows of a batch whose answer counts; those whose error was retried have left it."""
    return batches.c.n_ok + batches.c.n_truncated + batches.c.n_error


def _done(job_id: str) -> ColumnElement[bool]:
    return and_(batches.c.job_id == job_id, batches.c.state == BatchState.DONE)


def _answered(job_id: str) -> ColumnElement[bool]:
    """By a model, and in this job."""
    return and_(
        results.c.job_id == job_id,
        results.c.status.in_((Status.OK, Status.TRUNCATED)),
        results.c.copied_from.is_(None),
    )


def _failed(job_id: str) -> ColumnElement[bool]:
    return and_(results.c.job_id == job_id, results.c.status == Status.ERROR)
