"""Tells whoever wants to know how a job of this process ended; a hook that fails is told on the terminal alone."""

import os
from contextlib import suppress

import click

from pipeline.errors import PipelineError
from pipeline.store.database import Database
from workers.notifier import Notifier


def send_notices(database: Database, job_id: str | None = None) -> None:
    """What is due, of one job or of all. Never fails: what is not sent is sent later, or told by `status`."""
    with suppress(PipelineError):
        for trouble in Notifier(database, os.environ).send_due(job_id):
            click.echo(trouble, err=True)
