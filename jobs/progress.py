"""What a person sees while a job runs: a live view on a terminal, a line now and then in a log."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from rich.console import Console
from rich.live import Live
from rich.table import Table

from jobs.tables import duration
from jobs.view import Seen, view
from pipeline.store.records import Progress as Figures

#: Seconds between two lines where there is no terminal.
_LINE_EVERY_S = 10.0


@contextmanager
def waiting(console: Console, what: str) -> Iterator[None]:
    """A spinner, or one line where there is no terminal."""
    if console.is_terminal:
        with console.status(what):
            yield
    else:
        console.print(what)
        yield


@contextmanager
def shown(
    console: Console, look: Callable[[], Seen], errors: Callable[[int], Mapping[str, int]]
) -> Iterator[Callable[[], None]]:
    """Gives the function to call when what `look` sees has changed; `errors` are those by kind, of so many in all."""
    first = look()
    meter = Meter(first.figures, unit=first.unit)
    if console.is_terminal:
        yield from _live(console, look, errors, meter)
    else:
        yield from _lines(console, look, meter)


class Meter:
    """Rates of this run, which need not be the job's first."""

    def __init__(self, start: Figures, clock: Callable[[], float] = time.perf_counter, *, unit: str = "row") -> None:
        """`unit` is what the figures count."""
        self._start, self.unit, self._clock, self._started = start, unit, clock, clock()

    def words(self, now: Figures) -> str:
        seconds = max(self._clock() - self._started, 1e-9)
        rows = (now.recorded - self._start.recorded) / seconds
        tokens = (_tokens(now) - _tokens(self._start)) / seconds
        parts = [f"{rows:.1f} {self.unit}s/s", f"{tokens:,.0f} tokens/s", f"{reuse(now):.0%} of prompt tokens reused"]
        if rows and now.total is not None and now.recorded < now.total:
            parts.append(f"{duration((now.total - now.recorded) / rows)} left")
        return ", ".join(parts)


def reuse(figures: Figures) -> float:
    """The share of prompt tokens that were read from the prefix store."""
    prompt = figures.computed_tokens + figures.reused_tokens
    return figures.reused_tokens / prompt if prompt else 0.0


def _tokens(figures: Figures) -> int:
    return figures.computed_tokens + figures.reused_tokens + figures.output_tokens


def _live(
    console: Console, look: Callable[[], Seen], errors: Callable[[int], Mapping[str, int]], meter: Meter
) -> Iterator[Callable[[], None]]:
    def frame() -> Table:
        seen = look()
        return view(seen, meter.words(seen.figures), errors(seen.figures.error))

    with Live(frame(), console=console, transient=True) as live:
        yield lambda: live.update(frame(), refresh=True)


def _lines(console: Console, look: Callable[[], Seen], meter: Meter) -> Iterator[Callable[[], None]]:
    last = time.monotonic()

    def update() -> None:
        nonlocal last
        now = look().figures
        if time.monotonic() - last >= _LINE_EVERY_S or now.recorded == now.total:
            last = time.monotonic()
            console.print(f"{now.recorded}/{now.total} {meter.unit}s, {meter.words(now)}", soft_wrap=True)

    yield update
