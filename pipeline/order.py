"""Whether a job's rows are better sorted before they are answered, foretold from the texts of some of their prompts.

What is shared is counted in characters, and no more exactly than that choice needs: neither a tokenizer nor a model has
to be there, and the first row waits for nothing but this.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise

from pipeline.errors import RowError
from pipeline.ingest.inputs import Source
from pipeline.ingest.pool import Pool, read_pool
from pipeline.prompts.conversation import Shape
from pipeline.prompts.shapes import shape_of
from pipeline.prompts.template import fill
from pipeline.rows import Row
from pipeline.spec import JobSpec

#: Share of all prompts that sorting must save beyond what the input's order saves.
WORTH = 0.05
#: How much is looked at: so many shards, or rows where shards are small, and characters at most.
_POOL_SHARDS = 4
_POOL_ROWS = 1024
_POOL_CHARACTERS = 32 << 20
#: Characters behind what all prompts share: fewer are not worth sharing, unless they are all of two prompts.
_LEAST_SHARED = 200
#: Kinds of rows that must be met again far away, unless hardly any is not, before it is told how often the others are.
_LEAST_MET_AGAIN = 5

#: The number of the stretch that it is from, and its texts.
_Shard = tuple[int, Sequence[str]]


@dataclass(frozen=True, slots=True)
class Order:
    column: str  #: by which rows would be sorted first
    kept: float  #: share of the prompts that is not computed again, in the input's order
    sorted: float  #: the same where rows are sorted

    @property
    def pays(self) -> bool:
        return self.sorted - self.kept >= WORTH


def order_that_pays(spec: JobSpec, source: Source, shard_rows: int, shape: Shape | None = None) -> Order | None:
    """None where rows are to stay in the input's order. Raises InputError or TryAgain."""
    order = foretell_order(spec, source, shard_rows, shape)
    return order if order is not None and order.pays else None


def foretell_order(spec: JobSpec, source: Source, shard_rows: int, shape: Shape | None = None) -> Order | None:
    """None where there is nothing to choose: it was chosen, or rows cannot be looked at, or they fit in one shard.

    `shape` is that of other prompts than the job's own.
    """
    shape = (shape or shape_of(spec.asked[0])).at(datetime.now().astimezone())
    taken = [most for most in (spec.limit, spec.sample_count) if most is not None]
    most_rows = min([max(_POOL_ROWS, _POOL_SHARDS * shard_rows), *taken])
    if spec.keep_order or source.is_stream or not shape.columns or most_rows <= shard_rows:
        return None
    pool = read_pool(source, shape.columns, shard_rows, most_rows, spec.limit, far=not taken)
    texts = list(_texts(shape, pool))
    if sum(map(len, texts)) <= shard_rows or not any(map(any, texts)):
        return None
    return _foretold(spec, shape.columns[0], texts, pool.n_rows, shard_rows)


def _texts(shape: Shape, pool: Pool) -> Iterator[list[str]]:
    """Of each stretch, without rows that have no prompt."""
    most = _POOL_CHARACTERS if pool.n_rows is None else _POOL_CHARACTERS // 8
    render = _rendering(shape)
    for stretch in pool.stretches:
        texts, characters = [], 0
        for text in _rendered(render, stretch):
            texts.append(text)
            characters += len(text)
            if characters > most:
                break
        yield texts


def _rendered(render: Callable[[Row], str], rows: Iterable[Row]) -> Iterator[str]:
    for row in rows:
        with suppress(RowError):
            yield render(row)


def _rendering(shape: Shape) -> Callable[[Row], str]:
    """The messages of a row end to end, up to the last that differs between rows. Raises RowError."""
    varying = shape.varying
    if varying is None:
        return lambda row: "".join(each.content.text for each in shape.messages(shape.values(row)) if each.content)
    before = "".join(str(message["content"]) for message in varying.around("")[: varying.place])
    return lambda row: before + fill(varying.segments, varying.texts(shape.values(row)))


def _foretold(
    spec: JobSpec, column: str, stretches: Sequence[Sequence[str]], n_rows: int | None, shard_rows: int
) -> Order:
    shards = [
        (number, texts[start : start + shard_rows])
        for number, texts in enumerate(stretches)
        for start in range(0, len(texts), shard_rows)
    ]
    count, characters = _sizes(shards)
    if spec.asked[0].dedupes:
        shards = list(_distinct(shards))
    n_distinct, distinct_characters = _sizes(shards)
    everything = sorted((text, number) for number, texts in shards for text in texts)
    alike = _Alike(spec.asked[0], everything[0][0], everything[-1][0])
    kept = sum(sum(alike.lengths(sorted(texts))) for _, texts in shards)
    lengths = alike.lengths([text for text, _ in everything])
    n_distinct_rows = None if n_rows is None else n_rows * n_distinct / count
    alone = _share_alone(lengths, [number for _, number in everything], alike.common, n_distinct_rows)
    again = [length for length in lengths if length > alike.common]
    saved = alone * alike.common + (1 - alone) * (sum(again) / len(again) if again else alike.common)
    # Rows of the same prompt are computed once in any order. What several questions say of a row's text is computed
    # once for all of them, whatever other rows say.
    shares = (characters - distinct_characters + length for length in (kept, n_distinct * saved))
    return Order(column, *(1 - (1 - share / characters) / len(spec.asked) for share in shares))


def _sizes(shards: Iterable[_Shard]) -> tuple[int, int]:
    """Texts, and their characters."""
    texts = [text for _, texts in shards for text in texts]
    return len(texts), sum(map(len, texts))


def _distinct(shards: Iterable[_Shard]) -> Iterator[_Shard]:
    """The first text of each kind, and the shards that have one."""
    met: set[str] = set()
    for number, texts in shards:
        if new := [text for text in dict.fromkeys(texts) if text not in met]:
            met.update(new)
            yield number, new


class _Alike:
    """How many characters neighbours among sorted texts share, where sharing them saves something."""

    def __init__(self, spec: JobSpec, first: str, last: str) -> None:
        # A mean over all of a prompt's tokens takes all of them; deterministic rows share what all have in common.
        self._shares = spec.embed != "mean" and not spec.deterministic
        self.common = 0 if spec.embed == "mean" else _shared(first, last)  #: of all of them

    def lengths(self, texts: Sequence[str]) -> list[int]:
        """Of each text with the one before it; of the first one, what all share."""
        return [self.common, *(self._length(before, text) for before, text in pairwise(texts))]

    def _length(self, before: str, text: str) -> int:
        length = _shared(before, text) if self._shares else self.common
        return length if length - self.common >= _LEAST_SHARED else self.common


def _shared(one: str, other: str) -> int:
    """Characters in common from the start, by doubling steps, then by halving."""
    low, step, most = 0, 32, min(len(one), len(other))
    while low < most and step:
        if one[low : low + step] == other[low : low + step]:
            low, step = low + step, step * 2
        else:
            step //= 2
    return min(low, most)


def _share_alone(lengths: Sequence[int], numbers: Sequence[int], common: int, n_rows: float | None) -> float:
    """Of the rows that share no more than all do with a row before them in the sorted table.

    `numbers` are those of the stretches that the rows are from. Where these are some of a table of `n_rows`, how many
    kinds of rows it has is estimated from the kinds that one stretch has, and two (Chao and Lin 2012, for what is drawn
    without being put back; it is a lower bound).
    """
    kinds: list[set[int]] = []
    for length, number in zip(lengths, numbers, strict=True):
        if length <= common:
            kinds.append(set())
        kinds[-1].add(number)
    seen = len(kinds) / len(lengths)
    once, twice = (sum(len(kind) == times for kind in kinds) for times in (1, 2))
    if n_rows is None or twice < min(once, _LEAST_MET_AGAIN):
        return seen
    stretches, looked_at = len(set(numbers)), len(lengths) / n_rows
    unseen = once and once**2 / (2 * twice * stretches / (stretches - 1) + once * looked_at / (1 - looked_at))
    return min(seen, (len(kinds) + unseen) / n_rows)
