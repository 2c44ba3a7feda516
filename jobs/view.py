"""The live view of a job on a terminal: how far it is, how fast, what fails, and who works on it."""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from rich.console import RenderableType
from rich.progress_bar import ProgressBar
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from jobs.fleet_shown import queue_words, workers_table
from jobs.standing import InFleet
from jobs.tables import counted, rich_table
from pipeline.store.course import error_counts
from pipeline.store.database import Database
from pipeline.store.records import Progress

#: Kinds of errors that are named.
_KINDS = 5
#: A count by kinds walks over all results; of the whole time it may take one part in so many.
_PATIENCE = 20


@dataclass(frozen=True, slots=True)
class Seen:
    """A job at one moment."""

    name: str
    figures: Progress
    in_fleet: InFleet | None = None
    unit: str = "row"  #: what the figures count


class Failures:
    """A job's errors by kind, as they were lately."""

    def __init__(self, database: Database, job_id: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._database, self._job_id, self._clock = database, job_id, clock
        self._counts: Mapping[str, int] = {}
        self._due = clock()

    def by_kind(self, n_errors: int) -> Mapping[str, int]:
        """The most frequent first; `n_errors` tells whether there may be new ones."""
        if n_errors != sum(self._counts.values()) and self._clock() >= self._due:
            started = self._clock()
            self._counts = error_counts(self._database, self._job_id)
            self._due = self._clock() + _PATIENCE * (self._clock() - started)
        return self._counts


def view(seen: Seen, words: str, errors: Mapping[str, int]) -> Table:
    """`words` tell of rates, and of what is left."""
    lines = Table.grid(expand=False)
    for line in _lines(seen, words, errors):
        lines.add_row(line)
    return lines


def _lines(seen: Seen, words: str, errors: Mapping[str, int]) -> Iterator[RenderableType]:
    figures = seen.figures
    total = "?" if figures.total is None else f"{figures.total:,}"
    head = Table.grid(padding=(0, 1))
    bar = ProgressBar(total=figures.total, completed=figures.recorded, width=24, pulse=figures.total is None)
    head.add_row(Spinner("dots"), Text(seen.name, style="bold"), bar, f"{figures.recorded:,}/{total} {seen.unit}s")
    yield head
    yield Text(words)
    if figures.error:
        yield Text(f"{counted(figures.error, 'error')}{_kinds(errors)}", style="red")
    if seen.in_fleet is not None:
        yield Text(queue_words(seen.in_fleet))
        if seen.in_fleet.fleet.workers:
            yield rich_table(*workers_table(seen.in_fleet.fleet, seen.in_fleet.names))
        if seen.in_fleet.held_up is not None:
            yield Text(seen.in_fleet.held_up, style="yellow")


def _kinds(errors: Mapping[str, int]) -> str:
    named = [f"{count:,} {kind}" for kind, count in list(errors.items())[:_KINDS]]
    more = ["…"] if len(errors) > _KINDS else []
    return f": {', '.join(named + more)}" if named else ""
