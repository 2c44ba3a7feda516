"""`pipeline scale-hint`: for whoever starts and stops machines, how many workers what waits would need."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict

import click

from jobs.fleet import Fleet
from jobs.scaling import Load, gpus_wanted, tokenizers_wanted
from jobs.time_span import TimeSpan
from pipeline.settings import Settings
from pipeline.spec import JobSpec
from pipeline.store.database import Database, open_database
from pipeline.store.open_work import OPEN_BATCHES, OpenWork, encode_rate, open_work, total
from pipeline.store.queries import Rate, list_jobs, recent_rate
from pipeline.store.records import JobRecord, JobState, Role


@click.command("scale-hint", short_help="Tell how many workers a fleet's work would need.")
@click.option(
    "--deadline", type=TimeSpan(), metavar="TIME", default="1h", show_default=True, help="SECONDS, or 30m, 2h, 1d."
)
@click.option("--model", metavar="M", help="Only jobs with this model, as they were submitted with it.")
def scale_hint(deadline: float, model: str | None) -> None:
    """Tell as one JSON object how many workers would end what the fleet has to do by the deadline: what waits, what one
    worker does in a second as measured lately, how many live, and how many are wanted. Paused jobs do not count.

    \b
    Example:
      pipeline scale-hint --deadline 2h
    """
    database = open_database(Settings.from_environment())
    work = open_work(database)
    fleet = Fleet.seen(database)
    to_do = [job for job in list_jobs(database) if job.id in work or _is_read(job, fleet)]
    jobs = [job for job in to_do if model in (None, _model(job))]
    hint = _hint(database, fleet, jobs, work, deadline)
    click.echo(json.dumps(hint, indent=2))


def _hint(
    database: Database, fleet: Fleet, jobs: Sequence[JobRecord], work: Mapping[str, OpenWork], deadline_s: float
) -> dict[str, object]:
    rates = {job.id: recent_rate(database, job) for job in jobs}
    open_of = {job.id: work.get(job.id, OpenWork()) for job in jobs}
    loads = [_load(database, job, open_of[job.id], rates[job.id], is_read=_is_read(job, fleet)) for job in jobs]
    return {
        "deadline_seconds": deadline_s,
        "waiting": _waiting(list(open_of.values())),
        "tokens_per_second_of_one_gpu_worker": {
            _model(job): rate.tokens / rate.seconds for job in jobs if (rate := rates[job.id]) is not None
        },
        "gpu": {"alive": fleet.processes(Role.GPU), **asdict(gpus_wanted(loads, deadline_s))},
        "tokenizer": {"alive": fleet.processes(Role.TOKENIZER), **asdict(tokenizers_wanted(loads, deadline_s))},
    }


def _is_read(job: JobRecord, fleet: Fleet) -> bool:
    return job.state is JobState.CUTTING and job.paused_at is None and fleet.producer_of(job.id) is not None


def _load(database: Database, job: JobRecord, work: OpenWork, rate: Rate | None, *, is_read: bool) -> Load:
    return Load(
        to_answer=work.to_encode.rows + work.to_answer.rows,
        to_encode=work.to_encode.rows,
        answered_per_s=None if rate is None else rate.rows / rate.seconds,
        encoded_per_s=encode_rate(database, job.id),
        is_read=is_read,
    )


def _waiting(work: Sequence[OpenWork]) -> dict[str, object]:
    """Of rows that are not encoded yet, nobody knows how many tokens they have."""
    encoded = {state: total(of.batches[state] for of in work) for state in OPEN_BATCHES}
    return {
        "rows": {"unencoded": total(of.to_encode for of in work).rows}
        | {state.value: amount.rows for state, amount in encoded.items()},
        "prompt_tokens": {state.value: amount.tokens for state, amount in encoded.items()},
    }


def _model(job: JobRecord) -> str:
    return JobSpec.model_validate_json(job.spec_json).model
