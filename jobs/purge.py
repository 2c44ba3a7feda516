"""`pipeline purge`: room again where jobs ended long ago: their input as it was cut, their tokens, their answers."""

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Literal

import click

from jobs.tables import counted, size
from jobs.time_span import TimeSpan
from pipeline.errors import RefusedError
from pipeline.openai.sorted_batches import delete_batch, taken_up, unused
from pipeline.settings import Settings
from pipeline.store.database import Database, existing_database
from pipeline.store.purge import Part, ended_before, held_bytes
from pipeline.store.purge import purge as purge_part
from pipeline.store.queries import list_jobs
from pipeline.store.records import JobRecord

#: In the order in which they are missed least.
_PARTS: dict[Part | Literal["batches"], str] = {
    "batches": "the prompts of files given to run-batch",
    "shards": "the input as it was cut (no row can be answered again then)",
    "tokens": "encoded prompts",
    "results": "the answers",
}


@dataclass(frozen=True, slots=True)
class _Piece:
    """Of one job, or of one batch file."""

    n_bytes: int
    delete: Callable[[], bool]  #: whether it is gone; False where it was left, since it is in use again


@click.command(short_help="Delete what jobs that ended long ago take up.")
@click.option("--older-than", type=TimeSpan(), metavar="TIME", required=True, help="Ended so long ago: 30d, 12h.")
@click.option("--batches", "parts", flag_value="batches", multiple=True, help="Only prompts of run-batch's files.")
@click.option("--shards", "parts", flag_value="shards", multiple=True, help="Only their input, as it was cut.")
@click.option("--tokens", "parts", flag_value="tokens", multiple=True, help="Only their encoded prompts.")
@click.option("--results", "parts", flag_value="results", multiple=True, help="Only their answers.")
@click.option("--yes", is_flag=True, help="Do not ask.")
def purge(older_than: float, parts: tuple[str, ...], yes: bool) -> None:
    """Delete what is kept of files given to run-batch, then shards, then tokens, then results of jobs that are done or
    cancelled, each after a question. Jobs, their counts and timings stay. A job that runs, is paused or is being cut is
    never touched.

    \b
    Examples:
      pipeline purge --older-than 30d
      pipeline purge --older-than 30d --shards --tokens --yes
    """
    if not yes and not sys.stdin.isatty():
        raise RefusedError("`pipeline purge` asks before it deletes, and nobody is here to answer. Give --yes.")
    settings = Settings.from_environment()
    database = existing_database(settings)
    ended = ended_before(database, older_than)
    for part, what in _PARTS.items():
        if parts and part not in parts:
            continue
        if part == "batches":
            _purge(part, what, "file", _of_batches(settings, database, ended, older_than), yes=yes)
        else:
            _purge(part, what, "job", [_of_job(database, job, part) for job in ended], yes=yes)


def _of_job(database: Database, job: JobRecord, part: Part) -> _Piece:
    return _Piece(held_bytes(database, job, part), partial(purge_part, database, job, part))


def _of_batches(settings: Settings, database: Database, ended: list[JobRecord], age_s: float) -> list[_Piece]:
    """But for those that a job is answered from that did not end so long ago."""
    gone = {job.id for job in ended}
    inputs = [json.loads(job.spec_json)["inputs"] for job in list_jobs(database) if job.id not in gone]
    found = unused(settings.home, age_s, {place for places in inputs for place in places})
    return [_Piece(taken_up(directory), partial(delete_batch, directory)) for directory in found]


def _purge(part: str, what: str, owner: str, pieces: list[_Piece], *, yes: bool) -> None:
    found = [piece for piece in pieces if piece.n_bytes]
    if not found:
        click.echo(f"{part}: nothing to delete.")
        return
    room = f"{'about ' if part == 'results' else ''}{_room(found)}"
    if not yes and not click.confirm(f"Delete {what}, of {counted(len(found), owner)}: {room}?"):
        return
    gone = [piece for piece in found if piece.delete()]
    within = ", which the database fills again" if part == "results" else ""
    click.echo(f"{part}: {_room(gone)} freed, of {counted(len(gone), owner)}{within}.")


def _room(pieces: list[_Piece]) -> str:
    n_bytes = sum(piece.n_bytes for piece in pieces)
    return size(n_bytes) if n_bytes >= 1 << 20 else f"{-(-n_bytes // 1024)} KiB"
