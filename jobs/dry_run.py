"""`pipeline submit --dry-run`: every check, prompts as the model will read them, and what the job will cost."""

import itertools
from collections.abc import Iterator, Sequence
from functools import partial

import click
from rich.console import Console

from jobs import exit_codes
from jobs.announcement import looked_at, sorted_first
from jobs.checkpoint import find_checkpoint
from jobs.progress import waiting
from jobs.tables import counted, duration, left_out, size
from pipeline.encoder import warning
from pipeline.foretelling import look
from pipeline.inference.memory import predicted_bytes
from pipeline.ingest.inputs import Source
from pipeline.ingest.sample import Sample
from pipeline.ingest.taking import Tally
from pipeline.means import Means, load_means
from pipeline.order import order_that_pays
from pipeline.prompts.choices import verdicts
from pipeline.rehearsal import Rehearsal, rehearse
from pipeline.reordering import Reordering, best_reordering
from pipeline.rows import Prompt, samples_of, tasks_of
from pipeline.settings import Settings
from pipeline.spec import JobSpec

_BAR = 40
#: Share of all prompt tokens.
_WORTH_TELLING = 0.05


def dry_run(settings: Settings, spec: JobSpec, source: Source) -> int:
    """The exit status. Records nothing."""
    settings.make_home()
    notes = Console(stderr=True, highlight=False)
    tally = Tally()
    sample = look(spec, source, tally)
    if not sample.rows:
        raise source.without_rows()
    checkpoint = find_checkpoint(settings.home, spec.model, spec.adapter)
    with waiting(notes, f"Loading {spec.model} ..."):
        means = load_means(spec, checkpoint, settings)
    if (told := warning(spec, means.vocabulary)) is not None:
        notes.print(f"Warning: {told}", soft_wrap=True, markup=False)
    with waiting(notes, "Timing a small batch ..."):
        found = rehearse(spec, means, sample.rows, settings.batch_rows)
        order_of = partial(order_that_pays, spec, source, max(1, settings.shard_rows // len(spec.asked)))
        order = order_of()
    if order is not None:
        found = found.with_reuse(order.sorted)
    with waiting(notes, "Trying other orders of the columns ..."):
        better = best_reordering(spec, means, sample.rows, settings.batch_rows, order_of)
    if source.taking is not None:
        click.echo(f"{left_out(tally.left_out, tally.read)}\n")
    for line in _report(spec, means, sample, found, settings.batch_rows):
        click.echo(line)
    if order is not None:
        click.echo(sorted_first(order))
    for line in _advice(found, better):
        click.echo(line)
    click.echo("Nothing was recorded. Leave out --dry-run to run it.")
    return exit_codes.OK


def _report(spec: JobSpec, means: Means, sample: Sample, found: Rehearsal, batch_rows: int) -> Iterator[str]:
    names, unit = [question.name for question in spec.questions], "prompt" if spec.questions else "row"
    adapted = f" with the adapter {spec.adapter}" if spec.adapter else ""
    as_read = f", as {spec.model}{adapted} will read it"
    for which, prompt in _shown(found, names):
        yield f"The {which} prompt{as_read}:\n"
        yield f"{means.vocabulary.show((*found.prefix, *prompt.own_ids))}\n"
        as_read = ""
    if found.prefix:
        yield f"Shared by all {unit}s: {counted(len(found.prefix), 'token')}, computed once:\n"
        yield means.vocabulary.show(found.prefix)
    else:
        yield "Prompts have no beginning in common that could be computed once."
    yield f"\nA {unit}'s own {'' if names else 'prompt '}tokens, over {counted(len(found.prompts), unit)}:\n"
    yield from _histogram([len(prompt.own_ids) for prompt in found.prompts])
    yield ""
    yield from _failures(found, names)
    yield from _cuts(spec, found)
    if found.neutralised:
        hold = "holds" if found.neutralised == 1 else "hold"
        yield f"{counted(found.neutralised, unit)} {hold} special tokens of the model, which stay plain text."
    if twins := len(found.prompts) - found.n_computed:
        has = "has" if twins == 1 else "have"
        same = "text" if names else "prompt"
        yield f"{counted(twins, unit)} {has} the same {same} as another, and will share its answer."
    yield from _estimate(spec, means, found, sample, batch_rows)


def _failures(found: Rehearsal, names: Sequence[str]) -> Iterator[str]:
    """The first three; what is wrong with several questions of a row, once."""
    alike: dict[tuple[str, str | None, str | None], list[str]] = {}
    for failure in found.failures:
        its = alike.setdefault((failure.key, failure.error_type, failure.error), [])
        its += [names[failure.row_id % len(names)]] if names else []
    for (key, kind, error), its in list(alike.items())[:3]:
        asked = f" ({', '.join(its)})" if its else ""
        yield f"Row {key}{asked} will be an error ({kind}): {error}"


def _shown(found: Rehearsal, names: Sequence[str]) -> Iterator[tuple[str, Prompt]]:
    """The first prompt of each question that has any, or the first three of the only one."""
    if not names:
        yield from zip(("first", "second", "third"), found.prompts, strict=False)
    for place, name in enumerate(names):
        yield from ((f"first {name}", prompt) for prompt in _of_question(found, place, len(names))[:1])


def _of_question(found: Rehearsal, place: int, count: int) -> list[Prompt]:
    return [prompt for prompt in found.prompts if prompt.row_id % count == place]


def _advice(found: Rehearsal, better: Reordering | None) -> Iterator[str]:
    if better is not None and better.reused - found.reused >= _WORTH_TELLING:
        yield f"With {{{better.column}}} before the other columns of the prompt, {better.reused:.0%} would be reused."


def _cuts(spec: JobSpec, found: Rehearsal) -> Iterator[str]:
    cut = [prompt for prompt in found.prompts if prompt.cut_tokens]
    if cut:
        what = "prompt" if spec.questions else "row"
        of_first = f"of the first one, row {cut[0].key}, {counted(cut[0].cut_tokens, 'token')}"
        yield f"{counted(len(cut), what)} will be cut to fit (--on-too-long {spec.on_too_long}): {of_first}."


def _estimate(spec: JobSpec, means: Means, found: Rehearsal, sample: Sample, batch_rows: int) -> Iterator[str]:
    rows, count = sample.n_rows, len(spec.asked)
    computed = found.computed_tokens(rows * count)
    of = "the input" if sample.is_whole else f"the first {counted(rows, 'row')} (there are more)"
    of += f", by {looked_at(sample)}" if len(sample.rows) < rows else ""
    each = f" with {count} answers each" if spec.questions else ""
    yield f"Estimate for {of}: {counted(rows, 'row')}{each}, {computed:,} prompt tokens to compute,"
    longest = [min(asked.max_tokens, means.model.context) if asked.writes else 0 for asked in spec.asked]
    written = sum(tokens * asked.n for tokens, asked in zip(longest, spec.asked, strict=True))
    least, most = found.seconds(rows * count, 0), found.seconds(rows * count, written / count)
    limit = f"up to {written} tokens to a row" if spec.questions else f"up to {longest[0]} tokens"
    limit = f"{spec.n} to a row, {limit} each" if spec.n > 1 else limit
    until = f" to {duration(most)}, by the length of the answers ({limit})" if written else ""
    yield f"{found.reused:.0%} of all prompt tokens reused, {duration(least)}{until}, as timed here just now."
    if not sample.is_whole:
        yield "Rows behind those were not looked at: they may share more or less."
    yield f"Memory beside the model: roughly {size(_batch_bytes(means, found, batch_rows))}."
    for place, asked in enumerate(spec.asked):
        for line in _task(asked, _of_question(found, place, count)):
            yield f"{spec.questions[place].name}: {line}" if spec.questions else line


def _task(spec: JobSpec, prompts: Sequence[Prompt]) -> Iterator[str]:
    """What its prompt does not show."""
    if spec.choices and spec.multi_label:
        holds, fails = verdicts(spec.choices[:1])
        yield f'Each label is asked for by itself: whether the prompt goes on with "{holds}" or with "{fails}".'
    if spec.score is not None:
        scored = sum(len(prompt.target) for prompt in prompts)
        yield f"The text of {spec.score} will be scored behind the prompt: {counted(scored, 'token')} in these rows."
    if spec.constraint is not None:
        shape = {"json_schema": "JSON schema", "regex": "regular expression", "grammar": "grammar"}
        yield f"Each answer will be held to the {shape[spec.constraint.kind]} while it is written."
    if spec.logprobs is not None:
        likeliest = f", and those of the {spec.logprobs} likeliest in its place" if spec.logprobs else ""
        yield f"Each token's log-probability will be recorded{likeliest}."


def _batch_bytes(means: Means, found: Rehearsal, batch_rows: int) -> int:
    """Of the batch of the longest rows, at the question that takes the most: they are answered one after the other."""
    tasks = tasks_of(found.task)
    longest = sorted(found.prompts, key=lambda prompt: -prompt.tokens)
    asked = [(task, [prompt for prompt in longest if prompt.row_id % len(tasks) == n]) for n, task in enumerate(tasks)]
    rows = max(1, batch_rows // sum(map(samples_of, tasks)))
    return max(predicted_bytes(means.model, len(found.prefix), its[:rows], task) for task, its in asked if its)


def _histogram(lengths: Sequence[int]) -> Iterator[str]:
    """Doubling classes: 1, 2-3, 4-7, 8-15, ..."""
    classes = {k: len(list(group)) for k, group in itertools.groupby(sorted(lengths), key=int.bit_length)}
    most = max(classes.values())
    for power in range(min(classes), max(classes) + 1):
        number = classes.get(power, 0)
        edges = f"{1 << power - 1}-{(1 << power) - 1}" if power > 1 else "1"
        yield f"{edges:>13}  {'█' * -(-number * _BAR // most):{_BAR}}  {number}"
