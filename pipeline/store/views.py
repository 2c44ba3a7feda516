"""Stage 7: views for people who ask in SQL: a job's name where the tables have its id, and times that can be read.

They are made anew whenever the tables are brought up to date (migrate.py), so that no migration has to mind them.
"""

from collections.abc import Callable
from typing import Any

from sqlalchemy import (
    JSON,
    BigInteger,
    ColumnElement,
    Connection,
    Select,
    Text,
    case,
    cast,
    func,
    select,
    text,
    type_coerce,
)
from sqlalchemy.schema import CreateView

from pipeline.rows import Status
from pipeline.store.records import JobState
from pipeline.store.schema import batches, jobs, results, shards

NAMES = ("v_results", "v_failed", "v_jobs", "v_timings")

_STAGES = ("queue_s", "load_s", "encode_s", "prefix_s", "prefill_s", "decode_s", "detokenize_s", "record_s")
_TOKENS = ("computed_tokens", "reused_tokens", "output_tokens")

_Any = ColumnElement[Any]
#: Seconds since 1970 as a moment: in SQLite a text, in UTC.
_MOMENT: dict[str, Callable[[_Any], _Any]] = {
    "sqlite": lambda seconds: func.datetime(seconds, "unixepoch"),
    "postgresql": func.to_timestamp,
}
#: What a job was asked for, by the field's name.
_FIELD: dict[str, Callable[[str], _Any]] = {
    "sqlite": lambda name: func.json_extract(jobs.c.spec_json, f"$.{name}"),
    # It reads no JSON that has a NUL anywhere, as an earlier version kept it.
    "postgresql": lambda name: func.json_extract_path_text(
        cast(func.replace(jobs.c.spec_json, r"\u0000", r"\ufffd"), JSON), name
    ),
}


def views(dialect: str) -> dict[str, Select[Any]]:
    """What each of them selects, by its name."""
    moment, field = _MOMENT[dialect], _FIELD[dialect]
    selected = (_results(moment), _failed(moment), _jobs(moment, field), _timings(moment))
    return dict(zip(NAMES, selected, strict=True))


def columns() -> dict[str, list[str]]:
    """The names of each view's columns, in order."""
    return {name: list(selected.selected_columns.keys()) for name, selected in views("sqlite").items()}


def create_views(connection: Connection) -> None:
    for name, selected in views(connection.dialect.name).items():
        connection.execute(CreateView(selected, name))


def drop_views(connection: Connection) -> None:
    for name in NAMES:
        connection.execute(text(f"DROP VIEW IF EXISTS {name}"))


def _results(moment: Callable[[_Any], _Any]) -> Select[Any]:
    source = jobs.alias("source")
    row = results.c
    return (
        select(
            jobs.c.name.label("job"),
            row.key,
            row.row_id.label("row"),
            row.question,
            row.status,
            row.label,
            row.score,
            row.output,
            row.parsed,
            row.labels,
            row.scores,
            row.samples,
            row.logprobs,
            row.logprob,
            row.perplexity,
            row.embedding,
            row.finish_reason,
            row.error_type,
            row.error,
            row.prompt_tokens,
            row.reused_tokens,
            row.output_tokens,
            row.cut_tokens,
            row.attempt,
            row.batch_no.label("batch"),
            source.c.name.label("copied_from"),
            moment(row.created_at).label("answered_at"),
            row.created_at.label("answered_epoch"),
        )
        .join_from(results, jobs, jobs.c.id == row.job_id)
        .outerjoin(source, source.c.id == row.copied_from)
    )


def _failed(moment: Callable[[_Any], _Any]) -> Select[Any]:
    row = results.c
    return (
        select(
            jobs.c.name.label("job"),
            row.key,
            row.row_id.label("row"),
            row.question,
            row.error_type,
            row.error,
            row.prompt_tokens,
            row.attempt,
            row.batch_no.label("batch"),
            moment(row.created_at).label("failed_at"),
            row.created_at.label("failed_epoch"),
        )
        .join_from(results, jobs, jobs.c.id == row.job_id)
        .where(type_coerce(row.status, Text) == Status.ERROR.value)
    )


def _jobs(moment: Callable[[_Any], _Any], field: Callable[[str], _Any]) -> Select[Any]:
    """By the sums that batches and shards carry, as `status` tells them: nothing is counted row by row."""
    batch = select(
        batches.c.job_id,
        *(_sum(batches.c[name], name) for name in ("n_ok", "n_truncated", "n_error", *_TOKENS)),
        func.min(batches.c.started_at).label("started_at"),
    )
    shard = select(
        shards.c.job_id,
        *(_sum(shards.c[name], name) for name in ("n_ok", "n_truncated", "n_error", "reused_tokens")),
        func.max(shards.c.row_to).label("cut"),
    )
    of_batches = batch.group_by(batches.c.job_id).subquery("of_batches")
    of_shards = shard.group_by(shards.c.job_id).subquery("of_shards")
    ok, truncated, errors, reused = (
        func.coalesce(of_batches.c[name], 0) + func.coalesce(of_shards.c[name], 0)
        for name in ("n_ok", "n_truncated", "n_error", "reused_tokens")
    )
    left = func.coalesce(jobs.c.n_rows, of_shards.c.cut, 0) - ok - truncated - errors
    is_cancelled = type_coerce(jobs.c.state, Text) == JobState.CANCELLED.value
    return (
        select(
            jobs.c.name.label("job"),
            case((jobs.c.paused_at.is_not(None), "paused"), else_=type_coerce(jobs.c.state, Text)).label("state"),
            field("model").label("model"),
            jobs.c.n_rows.label("rows"),
            ok.label("ok"),
            truncated.label("truncated"),
            errors.label("errors"),
            case((is_cancelled, left), else_=0).label("cancelled"),
            case((is_cancelled, 0), else_=left).label("waiting"),
            func.coalesce(of_batches.c.computed_tokens, 0).label("computed_tokens"),
            reused.label("reused_tokens"),
            func.coalesce(of_batches.c.output_tokens, 0).label("output_tokens"),
            jobs.c.priority,
            jobs.c.fleet,
            jobs.c.error,
            moment(jobs.c.submitted_at).label("submitted_at"),
            moment(of_batches.c.started_at).label("started_at"),
            moment(jobs.c.finished_at).label("finished_at"),
            jobs.c.submitted_at.label("submitted_epoch"),
            of_batches.c.started_at.label("started_epoch"),
            jobs.c.finished_at.label("finished_epoch"),
            moment(jobs.c.shards_purged_at).label("shards_purged_at"),
            moment(jobs.c.results_purged_at).label("results_purged_at"),
        )
        .outerjoin_from(jobs, of_batches, of_batches.c.job_id == jobs.c.id)
        .outerjoin(of_shards, of_shards.c.job_id == jobs.c.id)
    )


def _timings(moment: Callable[[_Any], _Any]) -> Select[Any]:
    row = batches.c
    return select(
        jobs.c.name.label("job"),
        row.batch_no.label("batch"),
        row.shard_no.label("shard"),
        row.state,
        row.n_rows.label("rows"),
        row.n_ok.label("ok"),
        row.n_truncated.label("truncated"),
        row.n_error.label("errors"),
        *(row[name] for name in (*_TOKENS, *_STAGES)),
        row.attempts,
        row.device,
        row.worker,
        *(moment(row[name]).label(name) for name in ("created_at", "started_at", "finished_at")),
        *(row[name].label(name.replace("_at", "_epoch")) for name in ("created_at", "started_at", "finished_at")),
    ).join_from(batches, jobs, jobs.c.id == row.job_id)


def _sum(column: _Any, name: str) -> _Any:
    """PostgreSQL sums up large integers to a number without a type of its own."""
    return cast(func.sum(column), BigInteger).label(name)
