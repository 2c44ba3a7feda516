"""`pipeline purge`: room again where jobs ended long ago: their input as it was cut, their tokens, their answers."""

import sys

import click

from jobs.tables import counted, size
from jobs.time_span import TimeSpan
from pipeline.errors import RefusedError
from pipeline.settings import Settings
from pipeline.store.database import Database, open_database
from pipeline.store.purge import Part, ended_before, held_bytes
from pipeline.store.purge import purge as purge_part
from pipeline.store.records import JobRecord

#: In the order in which they are missed least.
_PARTS: dict[Part, str] = {
    "shards": "the input as it was cut (no row can be answered again then)",
    "tokens": "encoded prompts",
    "results": "the answers",
}


@click.command(short_help="Delete what jobs that ended long ago take up.")
@click.option("--older-than", type=TimeSpan(), metavar="TIME", required=True, help="Ended so long ago: 30d, 12h.")
@click.option("--shards", "parts", flag_value="shards", multiple=True, help="Only their input, as it was cut.")
@click.option("--tokens", "parts", flag_value="tokens", multiple=True, help="Only their encoded prompts.")
@click.option("--results", "parts", flag_value="results", multiple=True, help="Only their answers.")
@click.option("--yes", is_flag=True, help="Do not ask.")
def purge(older_than: float, parts: tuple[Part, ...], yes: bool) -> None:
    """Delete shards, then tokens, then results of jobs that are done or cancelled, each after a question. Jobs, their
    counts and timings stay. A job that runs, is paused or is being cut is never touched.

    \b
    Examples:
      pipeline purge --older-than 30d
      pipeline purge --older-than 30d --shards --tokens --yes
    """
    if not yes and not sys.stdin.isatty():
        raise RefusedError("`pipeline purge` asks before it deletes, and nobody is here to answer. Give --yes.")
    database = open_database(Settings.from_environment())
    ended = ended_before(database, older_than)
    for part, what in _PARTS.items():
        if not parts or part in parts:
            _purge(database, ended, part, what, yes=yes)


def _purge(database: Database, ended: list[JobRecord], part: Part, what: str, *, yes: bool) -> None:
    held = {job.id: held_bytes(database, job, part) for job in ended}
    found = [job for job in ended if held[job.id]]
    if not found:
        click.echo(f"{part}: nothing to delete.")
        return
    room = f"{'about ' if part == 'results' else ''}{_room(sum(held.values()))}"
    if not yes and not click.confirm(f"Delete {what}, of {counted(len(found), 'job')}: {room}?"):
        return
    gone = [job for job in found if purge_part(database, job, part)]
    freed = _room(sum(held[job.id] for job in gone))
    within = ", which the database fills again" if part == "results" else ""
    click.echo(f"{part}: {freed} freed, of {counted(len(gone), 'job')}{within}.")


def _room(n_bytes: int) -> str:
    return size(n_bytes) if n_bytes >= 1 << 20 else f"{-(-n_bytes // 1024)} KiB"
