"""`pipeline submit --dry-run`: every check, prompts as the model will read them, and what the job will cost."""

import itertools
from collections.abc import Iterator, Sequence

import click
from rich.console import Console

from jobs import exit_codes
from jobs.announcement import sorted_first
from jobs.progress import waiting
from jobs.tables import counted, duration, left_out, size
from pipeline.inference.checkpoint import resolve_checkpoint
from pipeline.inference.memory import predicted_bytes
from pipeline.ingest.inputs import Source
from pipeline.ingest.rows import peek
from pipeline.ingest.taking import Tally
from pipeline.means import Means, load_means
from pipeline.order import order_that_pays
from pipeline.prompts.choices import questions
from pipeline.prompts.shapes import shape_of
from pipeline.rehearsal import Rehearsal, rehearse
from pipeline.reordering import Reordering, best_reordering
from pipeline.rows import Row
from pipeline.settings import Settings
from pipeline.spec import JobSpec

#: Rows that are looked at. An input of fewer is known in full.
_SAMPLE_ROWS = 1000
_BAR = 40
#: Share of all prompt tokens.
_WORTH_TELLING = 0.05


def dry_run(settings: Settings, spec: JobSpec, source: Source) -> int:
    """The exit status. Records nothing."""
    settings.make_home()
    notes = Console(stderr=True, highlight=False)
    tally = Tally()
    looked_at = _SAMPLE_ROWS + 1 if spec.limit is None else min(spec.limit, _SAMPLE_ROWS + 1)
    rows = peek(source, looked_at, shape_of(spec).columns, tally)
    if not rows:
        raise source.without_rows()
    sample = [Row(place, str(place), values) for place, values in enumerate(rows[:_SAMPLE_ROWS])]
    with waiting(notes, f"Loading {spec.model} ..."):
        means = load_means(spec, resolve_checkpoint(spec.model, spec.adapter), settings)
    with waiting(notes, "Timing a small batch ..."):
        found = rehearse(spec, means, sample, settings.batch_rows)
        order = order_that_pays(spec, source, settings.shard_rows)
    if order is not None:
        found = found.with_reuse(order.sorted)
    with waiting(notes, "Trying other orders of the columns ..."):
        better = best_reordering(spec, means, sample, settings.batch_rows)
    n_rows = None if len(rows) > _SAMPLE_ROWS else len(rows)
    if source.taking is not None:
        click.echo(f"{left_out(tally.left_out, tally.read)}\n")
    for line in _report(spec, means, sample, found, n_rows, settings.batch_rows):
        click.echo(line)
    if order is not None:
        click.echo(sorted_first(order))
    for line in _advice(found, better):
        click.echo(line)
    click.echo("Nothing was recorded. Leave out --dry-run to run it.")
    return exit_codes.OK


def _report(
    spec: JobSpec, means: Means, sample: Sequence[Row], found: Rehearsal, n_rows: int | None, batch_rows: int
) -> Iterator[str]:
    first = found.prompts[0]
    adapted = f" with the adapter {spec.adapter}" if spec.adapter else ""
    yield f"The first prompt, as {spec.model}{adapted} will read it:\n"
    yield means.vocabulary.show((*found.prefix, *first.own_ids))
    for which, prompt in zip(("second", "third"), found.prompts[1:], strict=False):
        yield f"\nThe {which} prompt:\n"
        yield means.vocabulary.show((*found.prefix, *prompt.own_ids))
    yield f"\nShared by all rows: {counted(len(found.prefix), 'token')}, computed once:\n"
    yield means.vocabulary.show(found.prefix) or "(nothing)"
    yield f"\nA row's own prompt tokens, over {counted(len(found.prompts), 'row')}:\n"
    yield from _histogram([len(prompt.own_ids) for prompt in found.prompts])
    yield ""
    for failure in found.failures[:3]:
        yield f"Row {failure.key} will be an error ({failure.error_type}): {failure.error}"
    yield from _cuts(spec, found)
    if found.neutralised:
        hold = "holds" if found.neutralised == 1 else "hold"
        yield f"{counted(found.neutralised, 'row')} {hold} special tokens of the model, which stay plain text."
    if twins := len(found.prompts) - found.n_computed:
        has = "has" if twins == 1 else "have"
        yield f"{counted(twins, 'row')} {has} the same prompt as another, and will share its answer."
    yield from _estimate(spec, means, found, len(sample), n_rows, batch_rows)


def _advice(found: Rehearsal, better: Reordering | None) -> Iterator[str]:
    if better is not None and better.reused - found.reused >= _WORTH_TELLING:
        yield f"With {{{better.column}}} before the other columns of the prompt, {better.reused:.0%} would be reused."


def _cuts(spec: JobSpec, found: Rehearsal) -> Iterator[str]:
    cut = [prompt for prompt in found.prompts if prompt.cut_tokens]
    if cut:
        of_first = f"of the first one, row {cut[0].key}, {counted(cut[0].cut_tokens, 'token')}"
        yield f"{counted(len(cut), 'row')} will be cut to fit (--on-too-long {spec.on_too_long}): {of_first}."


def _estimate(
    spec: JobSpec, means: Means, found: Rehearsal, n_sample: int, n_rows: int | None, batch_rows: int
) -> Iterator[str]:
    rows = n_sample if n_rows is None else n_rows
    computed = found.own_tokens + len(found.prefix)
    of = "the input" if n_rows is not None else f"the first {counted(rows, 'row')} (there are more)"
    yield f"Estimate for {of}: {counted(rows, 'row')}, {computed:,} prompt tokens to compute,"
    longest = min(spec.max_tokens, means.model.context) if spec.writes else 0
    least, most = found.seconds(rows, 0), found.seconds(rows, longest * spec.n)
    each = f"{spec.n} to a row, up to {longest} tokens each" if spec.n > 1 else f"up to {longest} tokens"
    until = f" to {duration(most)}, by the length of the answers ({each})" if longest else ""
    yield f"{found.reused:.0%} of all prompt tokens reused, {duration(least)}{until}, as timed here just now."
    yield f"Memory beside the model: roughly {size(_batch_bytes(spec, means, found, longest, batch_rows))}."
    if spec.choices and spec.multi_label:
        holds, fails = questions(spec.choices[:1])
        yield f'Each label is asked for by itself: whether the prompt goes on with "{holds}" or with "{fails}".'
    if spec.score is not None:
        scored = sum(len(prompt.target) for prompt in found.prompts)
        yield f"The text of {spec.score} will be scored behind the prompt: {counted(scored, 'token')} in these rows."
    if spec.constraint is not None:
        shape = {"json_schema": "JSON schema", "regex": "regular expression", "grammar": "grammar"}
        yield f"Each answer will be held to the {shape[spec.constraint.kind]} while it is written."
    if spec.logprobs is not None:
        likeliest = f", and those of the {spec.logprobs} likeliest in its place" if spec.logprobs else ""
        yield f"Each token's log-probability will be recorded{likeliest}."


def _batch_bytes(spec: JobSpec, means: Means, found: Rehearsal, longest: int, batch_rows: int) -> int:
    """Of the batch of the longest rows."""
    own = sorted((prompt.tokens for prompt in found.prompts for _ in range(spec.n)), reverse=True)[:batch_rows]
    return predicted_bytes(means.model, len(found.prefix), own, longest)


def _histogram(lengths: Sequence[int]) -> Iterator[str]:
    """Doubling classes: 1, 2-3, 4-7, 8-15, ..."""
    classes = {k: len(list(group)) for k, group in itertools.groupby(sorted(lengths), key=int.bit_length)}
    most = max(classes.values())
    for power in range(min(classes), max(classes) + 1):
        number = classes.get(power, 0)
        edges = f"{1 << power - 1}-{(1 << power) - 1}" if power > 1 else "1"
        yield f"{edges:>13}  {'█' * -(-number * _BAR // most):{_BAR}}  {number}"
