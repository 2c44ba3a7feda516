"""A job of the fleet is left to its workers: what they need of it is laid where they see it, and a person told."""

import shlex

import click

from jobs import exit_codes
from jobs.follow import follow
from jobs.manner import Manner
from jobs.session import Session
from jobs.standing import standing
from jobs.status import print_json, tell_next
from jobs.tables import counted, unit
from pipeline.ingest.places import deposit, join
from pipeline.outfit import Outfit
from pipeline.spec import JobSpec
from pipeline.store.records import JobRecord


def deliver(session: Session, job: JobRecord, outfit: Outfit) -> None:
    """The model's tokenizer and its context, before there is anything to encode."""
    place = join(session.settings.shard_directory(job.id), "tokenizer")
    deposit(outfit.facts.tokenizer, place)
    session.ledger.set_tokenizer(job.id, place, outfit.facts.context)


def hand_over(session: Session, job: JobRecord, spec: JobSpec, manner: Manner) -> int:
    """The exit status: at once, or where a wait was asked for, when the job has ended."""
    if manner.wait:
        return follow(session, job, spec, manner)
    found = standing(session.database, session.settings, job.id)
    if manner.as_json:
        print_json(found)
    else:
        left = (found.figures.total or 0) - found.figures.finished
        to_do = f"{counted(left, unit(job))} to be {'given' if job.questions else 'answered'}"
        click.echo(f"{job.name} is with the fleet: {to_do}.")
        if spec.output is not None:
            click.echo(f"Once it is done, `pipeline resume {shlex.quote(job.name)}` writes {spec.output}.")
        tell_next(found)
    return exit_codes.OK
