"""What a report shows: each figure is a plot, a sentence for those who cannot see it, and its numbers as a table."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

from markupsafe import Markup

from jobs.pages.plot import Series, bars, ceiling, columns, number
from jobs.tables import duration
from pipeline.sharing import share_reused
from pipeline.store.course import PADDING_PARTS, Course, Interval, WorkerCourse
from pipeline.store.queries import STAGES, TOKENS
from pipeline.store.records import Progress

#: Bars of a histogram, at most, and what are round widths for one.
_BARS, _WIDTHS = 24, (1.0, 2.0, 5.0, 10.0)
_TOKEN_WORDS = {
    "computed_tokens": "prompt tokens computed",
    "reused_tokens": "prompt tokens reused",
    "output_tokens": "answer tokens",
}
#: A batch that waits in a queue takes nobody's time.
_WORK = tuple(stage for stage in STAGES if stage != "queue")


@dataclass(frozen=True, slots=True)
class Figure:
    """`legend` has the names and colours where there are several. Cells of the table are texts and numbers."""

    title: str
    told: str  #: what the plot shows, in a sentence
    plot: Markup
    columns: tuple[str, ...]
    rows: tuple[tuple[str | float, ...], ...]
    legend: tuple[tuple[str, int], ...] = ()


def figures(course: Course, predicted_reuse: float | None = None) -> Iterator[Figure]:
    """Those that there is something to show in; `predicted_reuse` is a share of all prompt tokens."""
    if course.intervals:
        yield _throughput(course)
        yield _tokens(course)
        yield _stages(course)
    if course.figures.computed_tokens + course.figures.reused_tokens:
        yield _reuse(course.figures, predicted_reuse)
    if course.prompt_lengths:
        yield _lengths("Lengths of prompts", "prompt", course.prompt_lengths)
    if any(course.answer_lengths):
        yield _lengths("Lengths of answers", "answer", course.answer_lengths)
    if course.padding:
        yield _padding(course.padding)
    if course.workers:
        yield _workers(course.workers)
    if course.slowest:
        yield _slowest(course)


def _throughput(course: Course) -> Figure:
    title = "Rows a second"
    series = [Series("rows/s", _over_time(course, lambda interval: interval.rows / course.interval_s))]
    fastest = max(each.rows for each in course.intervals) / course.interval_s
    told = f"Rows whose batch was closed, for each {duration(course.interval_s)}; at most {number(fastest)} rows/s."
    rows = tuple((_start(course, each), each.batches, each.rows) for each in course.intervals)
    return Figure(title, told, _in_time(title, course, series, "rows/s"), ("from", "batches", "rows"), rows)


def _tokens(course: Course) -> Figure:
    title = "Tokens a second"
    series = [
        Series(words, _over_time(course, partial(_token_rate, course.interval_s, name)), place)
        for place, (name, words) in enumerate(_TOKEN_WORDS.items())
    ]
    told = "Prompt tokens that were computed, those that were read from a shared prefix, and tokens of answers."
    rows: tuple[tuple[str | float, ...], ...] = tuple(
        (_start(course, each), *(each.tokens[name] for name in TOKENS)) for each in course.intervals
    )
    heads = ("from", *(_TOKEN_WORDS[name] for name in TOKENS))
    return Figure(title, told, _in_time(title, course, series, "tokens/s"), heads, rows, _legend(series))


def _stages(course: Course) -> Figure:
    """Those of a batch, stacked over time; the table has the whole job's, with what was encoded before any batch."""
    title = "Where the time went"
    series = [
        Series(f"s {stage}", _over_time(course, partial(_seconds_of, stage)), place)
        for place, stage in enumerate(_WORK)
    ]
    total = sum(course.figures.seconds[stage] for stage in _WORK)
    told = (
        f"Seconds of work by stage, of the batches closed in each {duration(course.interval_s)}. The table tells of "
        "the whole job, its shards too; waiting in a queue is no work."
    )
    rows = tuple(
        (stage, round(seconds, 3), "" if stage == "queue" or not total else f"{seconds / total:.1%}")
        for stage, seconds in course.figures.seconds.items()
    )
    shown = [each for each in series if any(each.values)]
    legend = tuple((each.name.removeprefix("s "), each.colour) for each in shown)
    plot = _in_time(title, course, shown or series[:1], "seconds of work")
    return Figure(title, told, plot, ("stage", "seconds", "share of work"), rows, legend)


def _reuse(figures: Progress, predicted: float | None) -> Figure:
    title = "Prompt tokens reused"
    prompt_tokens = figures.computed_tokens + figures.reused_tokens
    shares = {"achieved": share_reused(prompt_tokens, figures.computed_tokens)}
    rows: list[tuple[str | float, ...]] = [("achieved", figures.computed_tokens, figures.reused_tokens)]
    if predicted is not None:
        shares = {"predicted": predicted} | shares
        reused = round(predicted * prompt_tokens)
        rows.insert(0, ("predicted", prompt_tokens - reused, reused))
    told = ", ".join(f"{name}: {share:.1%}" for name, share in shares.items())
    told = f"Share of all prompt tokens that did not have to be computed. {told.capitalize()}."
    series = [
        Series("reused", [100 * share for share in shares.values()], 1),
        Series("computed", [100 * (1 - share) for share in shares.values()], 0),
    ]
    plot = bars(title, list(shares), series, [f"{share:.1%}" for share in shares.values()])
    return Figure(title, told, plot, ("", "tokens computed", "tokens reused"), tuple(rows), _legend(series))


def _lengths(title: str, noun: str, lengths: Mapping[int, int]) -> Figure:
    longest, rows = max(lengths), sum(lengths.values())
    width = int(ceiling(-(-(longest + 1) // _BARS), _WIDTHS))
    counts = Counter[int]()
    for length, count in lengths.items():
        counts[length // width] += count
    edges = [f"{place * width:,}" for place in range(max(counts) + 2)]
    series = [Series("rows", [counts[place] for place in range(max(counts) + 1)])]
    mean = sum(length * count for length, count in lengths.items()) / rows
    told = (
        f"Rows by the tokens of their {noun}: {min(lengths):,} to {longest:,}, {number(mean)} on average, half of them "
        f"{_median(lengths):,} or fewer."
    )
    plot = columns(title, edges, series, f"tokens of the {noun}", "rows")
    table = tuple((_span(place * width, (place + 1) * width - 1), counts[place]) for place in sorted(counts))
    return Figure(title, told, plot, ("tokens", "rows"), table)


def _padding(padding: Mapping[int, int]) -> Figure:
    title = "Padding spared"
    edges = [f"{100 * part // PADDING_PARTS} %" for part in range(PADDING_PARTS + 1)]
    counts = [padding.get(part, 0) for part in range(PADDING_PARTS)]
    told = (
        "Batches by the share of their places that would be padding, were each prompt padded to the longest of its "
        "batch. Decoder models read prompts packed, end to end, and compute none of it."
    )
    plot = columns(title, edges, [Series("batches", counts)], "share of places that would be padding", "batches")
    rows = tuple(
        (f"{start} to {end}", count) for (start, end), count in zip(pairwise(edges), counts, strict=True) if count
    )
    return Figure(title, told, plot, ("padding", "batches"), rows)


def _workers(workers: Sequence[WorkerCourse]) -> Figure:
    """Beside a bar is as much of a worker's own number as tells it from others; the table has its whole name."""
    title = "Rows a second by worker"
    rates = [number(each.rows_per_s) for each in workers]
    labels = [f"{each.worker.rpartition('.')[2][:8]} on {each.device}" for each in workers]
    told = "Rows of each process that answered batches, from the first that it took up to the last that it closed."
    rows: tuple[tuple[str | float, ...], ...] = tuple(
        (each.worker, each.device, each.batches, each.rows, round(each.span_s, 3), rate)
        for each, rate in zip(workers, rates, strict=True)
    )
    plot = bars(title, labels, [Series("rows/s", [each.rows_per_s for each in workers])], rates)
    return Figure(title, told, plot, ("worker", "device", "batches", "rows", "seconds", "rows/s"), rows)


def _slowest(course: Course) -> Figure:
    title = "Slowest batches"
    totals = [sum(batch.seconds[stage] for stage in _WORK) for batch in course.slowest]
    series = [
        Series(f"s {stage}", [batch.seconds[stage] for batch in course.slowest], place)
        for place, stage in enumerate(_WORK)
    ]
    shown = [each for each in series if any(each.values)]
    labels = [f"batch {batch.batch_no}, {batch.rows:,} rows" for batch in course.slowest]
    told = "The batches that took longest, by stage, without their wait in a queue."
    rows = tuple(
        (batch.batch_no, batch.rows, batch.device, round(total, 3), round(batch.seconds["queue"], 3))
        for batch, total in zip(course.slowest, totals, strict=True)
    )
    plot = bars(title, labels, shown or series[:1], [duration(total) for total in totals])
    legend = tuple((each.name.removeprefix("s "), each.colour) for each in shown)
    return Figure(title, told, plot, ("batch", "rows", "device", "seconds", "queue seconds"), rows, legend)


def _over_time(course: Course, value: Callable[[Interval], float]) -> list[float]:
    """Also of the intervals in which nothing was closed."""
    values = [0.0] * course.n_intervals
    for each in course.intervals:
        values[each.place] = value(each)
    return values


def _start(course: Course, interval: Interval) -> str:
    return duration(interval.place * course.interval_s)


def _token_rate(interval_s: float, kind: str, interval: Interval) -> float:
    return interval.tokens[kind] / interval_s


def _seconds_of(stage: str, interval: Interval) -> float:
    return interval.seconds[stage]


def _in_time(title: str, course: Course, series: Sequence[Series], y_label: str) -> Markup:
    edges = [duration(place * course.interval_s) for place in range(course.n_intervals + 1)]
    return columns(title, edges, series, "time since the first batch was taken up", y_label)


def _legend(series: Sequence[Series]) -> tuple[tuple[str, int], ...]:
    return tuple((each.name, each.colour) for each in series)


def _span(first: int, last: int) -> str:
    return f"{first:,}" if first == last else f"{first:,} to {last:,}"


def _median(lengths: Mapping[int, int]) -> int:
    left = sum(lengths.values()) / 2
    for length in sorted(lengths):
        left -= lengths[length]
        if left <= 0:
            break
    return length
