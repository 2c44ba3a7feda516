"""The model that a command is about, known by all that its files hold."""

from functools import partial
from pathlib import Path

import click

from pipeline.inference.checkpoint import Checkpoint, resolve_checkpoint
from pipeline.inference.digest_cache import DigestCache


def find_checkpoint(home: Path, model: str, adapter: str | None) -> Checkpoint:
    """What takes long is told of on standard error. Raises ModelError."""
    return resolve_checkpoint(model, adapter, DigestCache(home, partial(click.echo, err=True)))
