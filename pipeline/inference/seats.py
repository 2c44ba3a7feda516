"""Where the rows of a batch sit in its forwards: depth first, each split into nodes that it shares and its own ids."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from pipeline.inference.model import LanguageModel
from pipeline.inference.prefix_store import Path
from pipeline.rows import Asked, Batch, Choose, Prompt, Score, Task, samples_of, task_of


@dataclass(frozen=True, slots=True)
class Seat:
    """A prompt of a batch; `paths` are those of the nodes above it, shortest first."""

    prompt: Prompt
    paths: tuple[Path, ...]
    own_ids: tuple[int, ...]
    shared: int  #: tokens of the prompt that it shares with other rows
    splits: bool = False  #: its last node is its own, read by several samples

    @property
    def tokens(self) -> int:
        return len(self.own_ids) + (len(self.paths[-1]) if self.paths else 0)

    @property
    def token_ids(self) -> tuple[int, ...]:
        return self.paths[-1] + self.own_ids if self.paths else self.own_ids


@dataclass(frozen=True, slots=True)
class Party:
    """Seats of a batch whose rows are asked the same, and read in the same way."""

    task: Task
    model: LanguageModel
    seats: list[Seat]

    @property
    def samples(self) -> int:
        """Answers to each row."""
        return samples_of(self.task)

    @property
    def paths(self) -> list[tuple[Path, ...]]:
        """Those of each answer."""
        return [seat.paths for seat in self.seats for _ in range(self.samples)]


def by_task(batch: Batch, asked: Asked, model: LanguageModel) -> list[tuple[Task, LanguageModel, Batch]]:
    """The rows that are asked each task, and the model as it reads them."""
    prompts: dict[tuple[Task, bool], list[Prompt]] = {}
    for prompt in batch.prompts:
        task = task_of(asked, prompt.row_id)
        reading = model.reading(len(batch.prefix) + _read_at_once(prompt, task))
        prompts.setdefault((task, reading.stretched), []).append(prompt)
    return [
        (task, replace(model, stretched=stretched), replace(batch, prompts=tuple(own)))
        for (task, stretched), own in prompts.items()
    ]


def _read_at_once(prompt: Prompt, task: Task) -> int:
    """Tokens of a row behind the batch's prefix, up to the last one behind which anything is computed."""
    match task:
        case Choose():
            return prompt.tokens + task.longest - 1
        case Score():
            return prompt.tokens - 1
    return prompt.tokens


def passing(parties: Sequence[Party], prefix: Path, questions: int) -> set[Path]:
    """Nodes of use to this batch alone: a prompt's own, read by its samples; and where several questions are asked of
    each row, one that only a row's own read last, all of which are here."""
    seats = [seat for party in parties for seat in party.seats if seat.paths]
    present = Counter(seat.prompt.row_id // questions for seat in seats)
    rows: dict[Path, set[int]] = {}
    for seat in seats:
        rows.setdefault(seat.paths[-1], set()).add(seat.prompt.row_id // questions)
    its_own = {path for path, its in rows.items() if len(its) == 1 and present[min(its)] == questions > 1}
    return {seat.paths[-1] for seat in seats if seat.splits} | its_own - {prefix}


def seat(batch: Batch, *, split: bool = False) -> list[Seat]:
    """What reads a node lies together; short rows come before long ones below each.

    With `split`, all of a prompt but its last token becomes a node, so that it is computed once for all samples.
    """

    def order(prompt: Prompt) -> tuple[tuple[int, ...], int]:
        return prompt.own_ids[: prompt.cuts[-1]] if prompt.cuts else (), prompt.tokens

    seats = _seats(batch.prefix, sorted(batch.prompts, key=order))
    return [_split(seat) if split and len(seat.own_ids) > 1 else seat for seat in seats]


def _seats(prefix: Path, prompts: list[Prompt]) -> Iterator[Seat]:
    for prompt in prompts:
        paths = tuple(prefix + prompt.own_ids[:cut] for cut in prompt.cuts)
        last = prompt.cuts[-1] if prompt.cuts else 0
        whole = (prefix, *paths) if prefix else paths
        yield Seat(prompt, whole, prompt.own_ids[last:], len(prefix) + last)


def _split(seat: Seat) -> Seat:
    return Seat(seat.prompt, (*seat.paths, seat.token_ids[:-1]), seat.own_ids[-1:], seat.shared, splits=True)
