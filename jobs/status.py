"""`pipeline status`: one job in a sentence, its figures, and what to type next; of a fleet, who works in it."""

import json
import shlex
from collections.abc import Iterator

import click

from jobs.fleet import Fleet
from jobs.fleet_shown import fleet_json, print_workers, queue_words, work_json
from jobs.job_name import job_argument
from jobs.reuse import why_reuse_differs
from jobs.schedule_shown import difference_words
from jobs.standing import Standing, State, iso, standing
from jobs.tables import counted, duration, unit
from pipeline.errors import NotFoundError
from pipeline.settings import Settings
from pipeline.store.database import Database, existing_database
from pipeline.store.entries import NEWEST
from pipeline.store.records import JobRecord, Progress

#: Stages that only a fleet has.
_FLEET_STAGES = ("queue", "load")


@click.command(short_help="Tell how far a job is, and how fast.")
@job_argument(default=NEWEST)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option("--watch", "watched", is_flag=True, help="Show how it goes on until it ends; Ctrl-C ends the view only.")
def status(job: str, as_json: bool, watched: bool) -> None:
    """Tell how far JOB is: a name, an id or the start of one, or `last`, the newest, which is the default.

    Rates are over the time from the first batch taken up to the latest one answered: pauses, the
    time before a retry, and in a fleet the loading of the model included. Of a job that a fleet answers, it also tells
    who works there, how long the queue is, and what holds the job up.

    \b
    Example:
      pipeline status moods
    """
    settings = Settings.from_environment()
    database = existing_database(settings)
    try:
        found = standing(database, settings, job)
    except NotFoundError:
        fleet = Fleet.seen(database)
        if job != NEWEST or not fleet.workers:
            raise
        _tell_fleet(fleet, as_json=as_json)
        return
    if watched:
        found = _watch(settings, database, found, as_json=as_json)
    if as_json:
        print_json(found)
    else:
        tell(found)


def _watch(settings: Settings, database: Database, found: Standing, *, as_json: bool) -> Standing:
    """Lines are for whoever reads them; what a script reads is the object at the end."""
    # Only this needs the library for terminals, which takes a while to import.
    from rich.console import Console

    from jobs.watch import ENDED, watch

    console = Console(stderr=as_json, highlight=False)
    return watch(database, settings, found.job.id, console, {*ENDED, State.INTERRUPTED})


def _tell_fleet(fleet: Fleet, *, as_json: bool) -> None:
    """There is no job yet."""
    if as_json:
        click.echo(json.dumps({"job": None, "fleet": fleet_json(fleet, {})}, indent=2, ensure_ascii=False))
    else:
        click.echo("There are no jobs yet.\n")
        print_workers(fleet, {})


def print_json(found: Standing) -> None:
    fleet = {} if found.in_fleet is None else {"fleet": work_json(found.in_fleet)}
    click.echo(json.dumps({**found.as_json(), **fleet, "next": list(_next(found))}, indent=2, ensure_ascii=False))


def tell(found: Standing) -> None:
    """In words, with what to type next."""
    click.echo(f"{sentence(found)}\n")
    for name, text in _figures(found):
        click.echo(f"{name:<10}{text}")
    click.echo()
    if (why := why_reuse_differs(found)) is not None:
        click.echo(f"{why}\n")
    if found.in_fleet is not None and found.in_fleet.fleet.workers:
        print_workers(found.in_fleet.fleet, found.in_fleet.names)
        click.echo()
    tell_next(found)


def tell_next(found: Standing) -> None:
    """What holds the job up, and commands to type."""
    if found.in_fleet is not None and found.in_fleet.held_up is not None:
        click.echo(f"{found.in_fleet.held_up}\n")
    for command, effect in _next(found).items():
        click.echo(f"{command}  {effect}")


def sentence(found: Standing) -> str:
    name, total, finished = found.job.name, found.figures.total, found.figures.finished
    what, to_rows = unit(found.job), f" to {counted(found.n_rows or 0, 'row')}" if found.job.questions else ""
    so_far = f"{finished:,} of {counted(total, what)}{to_rows} finished" if total is not None else ""
    match found.state:
        case State.DONE:
            return f"{name} is done: {counted(finished, what)}{to_rows} finished."
        case State.CUTTING if found.in_fleet is not None:
            return f"{name} is being cut: its input is still being read, {finished:,} {what}s are finished."
        case State.CUTTING:
            return f"{name} is being cut: its input is still being read."
        case State.RUNNING:
            return f"{name} is running: {so_far}."
        case State.PAUSED:
            return f"{name} is paused: {so_far or f'{finished:,} {what}s finished'}."
        case State.CANCELLED:
            return f"{name} is cancelled: {counted(found.recorded, what)} had been recorded before."
        case State.INTERRUPTED if total is None:
            return f"{name} was interrupted while its input was being read; nothing recorded is lost."
        case State.INTERRUPTED:
            return f"{name} was interrupted: {so_far}, and nothing of that is lost."


def _figures(found: Standing) -> Iterator[tuple[str, str]]:
    figures = found.figures
    counts = {
        "ok": figures.ok,
        "truncated": figures.truncated,
        "error": figures.error,
        "cancelled": figures.cancelled,
        "waiting": (figures.total or figures.finished) - figures.finished,
    }
    copied = f"; {figures.copied:,} of them copied from equal rows or earlier jobs" if figures.copied else ""
    total = "?" if found.n_rows is None else f"{found.n_rows:,}"
    each = f"{total} with {counted(found.job.n_questions, 'answer')} each: " if found.job.questions else ""
    told = ", ".join(f"{count:,} {name}" for name, count in counts.items() if count) or "none yet"
    yield "rows", each + told + copied
    if found.difference is not None:
        yield "nightly", f"{difference_words(found.difference)}, beside the run before"
    if figures.cut or figures.neutralised:
        yield "texts", "; ".join(_of_texts(figures, "prompt" if found.job.questions else "row"))
    if found.rows_per_s is not None and found.active_s is not None:
        yield "speed", f"{found.rows_per_s:,.1f} rows/s over {duration(found.active_s)}"
    if found.reuse_share is not None:
        computed, reused = figures.computed_tokens, figures.reused_tokens
        foretold = found.job.predicted_reuse
        predicted = "" if foretold is None else f"; predicted: {foretold:.0%}"
        yield "prompts", f"{computed:,} tokens computed, {reused:,} reused ({found.reuse_share:.0%}{predicted})"
    if figures.output_tokens:
        yield "answers", counted(figures.output_tokens, "token")
    if any(figures.seconds.values()):
        stages = {name: s for name, s in figures.seconds.items() if found.job.fleet or name not in _FLEET_STAGES}
        yield "seconds", ", ".join(f"{stage} {seconds:.2f}" for stage, seconds in stages.items())
    if found.in_fleet is not None:
        yield "queue", queue_words(found.in_fleet)
    if purged := _purged(found.job):
        yield "purged", purged
    if found.job.error is not None:
        yield "stopped", found.job.error
    if found.unsent is not None:
        yield "notice", found.unsent


def _purged(job: JobRecord) -> str:
    parts = {"its input": job.shards_purged_at, "its answers": job.results_purged_at}
    told = [f"{what} on {str(iso(at))[:10]}" for what, at in parts.items() if at is not None]
    return f"{', '.join(told)}; it cannot go on" if told else ""


def _of_texts(figures: Progress, what: str) -> Iterator[str]:
    if figures.cut:
        yield f"{counted(figures.cut, what)} {'was' if figures.cut == 1 else 'were'} cut to fit"
    if figures.neutralised:
        hold = "holds" if figures.neutralised == 1 else "hold"
        yield f"{counted(figures.neutralised, what)} {hold} special tokens of the model, which stayed plain text"


def _failed(found: Standing) -> str:
    return "error" if found.job.questions else "error row"


def _next(found: Standing) -> dict[str, str]:
    """Commands to type, and what each does."""
    name = shlex.quote(found.job.name)
    commands: dict[str, str] = {}
    if found.job.shards_purged_at is not None or found.job.results_purged_at is not None:
        return commands
    if found.state in (State.INTERRUPTED, State.CANCELLED, State.PAUSED):
        commands[f"pipeline resume {name}"] = "goes on where it stopped"
    elif found.recorded:
        commands[f"pipeline results {name}"] = "shows the answers"
    if found.state is State.DONE and found.figures.error:
        commands[f"pipeline results {name} --status error"] = "shows what went wrong"
        commands[f"pipeline retry {name}"] = f"answers the {counted(found.figures.error, _failed(found))} again"
    if found.state in (State.CUTTING, State.RUNNING):
        if found.in_fleet is not None:
            commands[f"pipeline resume {name} --wait"] = "follows it to its end, and shows the answers then"
            commands[f"pipeline pause {name}"] = "holds it until it is resumed"
        commands[f"pipeline cancel {name}"] = "stops it; what is answered stays"
    return commands
