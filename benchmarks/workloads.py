"""What the benchmarks answer, as token ids, so that every contestant reads the same; no model is needed for it."""

import json
import math
import random
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import NormalDist
from typing import Any

import pyarrow.parquet as pq

from pipeline.prompts.vocabulary import Vocabulary

Ids = tuple[int, ...]

DATA = Path(__file__).parents[2] / "shared/data/amazon_review_snippets.parquet"
TASK = "Say whether the review is positive or negative, then why."
EXAMPLE_TOKENS = 890


@dataclass(frozen=True, slots=True)
class Workload:
    """Rows that all begin with `prefix`, which `rows` leave out. With labels, one of them is the answer."""

    name: str
    prefix: Ids
    rows: tuple[Ids, ...]
    new_tokens: int
    labels: tuple[str, ...] = ()
    label_ids: tuple[Ids, ...] = ()

    def __str__(self) -> str:
        own = sum(map(len, self.rows)) / len(self.rows)
        asked = f"one of {len(self.labels)} labels" if self.labels else f"{self.new_tokens} tokens"
        shared = f"after {len(self.prefix)} shared ones" if self.prefix else "that share nothing"
        return f"{self.name}: {len(self.rows)} rows of {own:.0f} tokens {shared}, {asked} out"


def write(path: Path, workloads: Sequence[Workload]) -> None:
    path.write_text(json.dumps([asdict(workload) for workload in workloads]))


def read(path: Path) -> list[Workload]:
    saved = json.loads(path.read_text())
    return [Workload(**{name: _tuples(value) for name, value in fields.items()}) for fields in saved]


def few_shot(vocabulary: Vocabulary, rows: int, new_tokens: int = 16) -> Workload:
    """W2: review sentences after a few-shot instruction of about 900 tokens."""
    own = (tuple(vocabulary.encode(text).ids) for text in questions(rows))
    return Workload("W2", tuple(vocabulary.encode(instruction(vocabulary)).ids), tuple(own), new_tokens)


def labelled(vocabulary: Vocabulary, rows: int) -> Workload:
    """W2 with two labels to choose between."""
    labels = (" positive", " negative")
    ids = tuple(tuple(vocabulary.encode(label).ids) for label in labels)
    return replace(few_shot(vocabulary, rows, max(map(len, ids))), name="W2 labels", labels=labels, label_ids=ids)


def unshared(vocabulary: Vocabulary, rows: int, new_tokens: int = 32) -> Workload:
    """W4: nothing shared; lengths as uneven as those of chats, from 7 to 440 tokens, 77 on average."""
    parts = [(place + 0.5) / rows for place in range(rows)]
    lengths = [min(440, max(7, round(51.5 * math.exp(0.92 * NormalDist().inv_cdf(part))))) for part in parts]
    random.Random(4).shuffle(lengths)
    text = vocabulary.encode(" ".join(review["text"] for review in reviews())).ids
    ends = [sum(lengths[: place + 1]) for place in range(rows)]
    own = tuple(tuple(text[end - length : end]) for end, length in zip(ends, lengths, strict=True))
    return Workload("W4", (), own, new_tokens)


def documents(vocab_size: int, count: int, questions: int, new_tokens: int = 8) -> Workload:
    """W3: documents of 300 tokens under one instruction of 200, the same questions after each, rows shuffled."""
    numbers = random.Random(3)

    def ids(length: int) -> Ids:
        return tuple(numbers.randrange(100, vocab_size) for _ in range(length))

    asked = [ids(numbers.randrange(8, 24)) for _ in range(questions)]
    rows = [document + question for document in (ids(300) for _ in range(count)) for question in asked]
    numbers.shuffle(rows)
    return Workload("W3", ids(200), tuple(rows), new_tokens)


def instruction(vocabulary: Vocabulary) -> str:
    """What every prompt of W2 begins with: the task, and examples of it until they are long enough."""
    examples: list[str] = []
    for review in reversed(reviews()):
        if len(vocabulary.encode("\n\n".join(examples)).ids) >= EXAMPLE_TOKENS:
            break
        examples.append(f"Review: {review['text']}\nSentiment: {'positive' if review['rating'] > 0 else 'negative'}")
    return "\n\n".join([TASK, *examples, "Review:"])


def questions(rows: int) -> list[str]:
    """What stands behind the instruction, row by row."""
    return [f" {review['text']}\nSentiment:" for review in reviews()[:rows]]


def reviews() -> list[dict[str, Any]]:
    if not DATA.exists():
        sys.exit(f"The reviews that this benchmark reads are not here: {DATA}")
    found: list[dict[str, Any]] = pq.read_table(DATA).to_pylist()
    return found


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value
