"""How fast rows become token ids: only what differs between them is encoded, as fast as a bare tokenizer would do that.

Beside it is the bare `encode_batch` over the same differing text; the ids must be those of whole prompts.
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pyarrow.parquet as pq
from transformers import AutoTokenizer

from pipeline.inference.checkpoint import resolve_checkpoint
from pipeline.inference.loading import save_tokenizer
from pipeline.prompts.conversation import Conversation, Turn
from pipeline.prompts.template import Template
from pipeline.prompts.tokens import PromptEncoder
from pipeline.prompts.vocabulary import Vocabulary
from pipeline.rows import Prompt, Row

GOAL = 0.9
INSTRUCTION = "Read what a customer wrote, and weigh what they praise against what they miss. " * 60
ROWS_AT_ONCE = 512


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("table", type=Path, help="a Parquet file with a column of texts")
    parser.add_argument("--column", default="text")
    parser.add_argument("--rows", type=int, default=20_000, help="so many, the table's over and over")
    arguments = parser.parse_args()
    texts = [text for text in pq.read_table(arguments.table)[arguments.column].to_pylist() if text]
    texts = (texts * (arguments.rows // len(texts) + 1))[: arguments.rows]
    with tempfile.TemporaryDirectory() as home:
        compare(save_tokenizer(resolve_checkpoint("smollm2-135m"), Path(home)), texts)


def compare(directory: Path, texts: list[str]) -> None:
    rows = [Row(place, str(place), {"text": text}) for place, text in enumerate(texts)]
    template = Template.parse(f"{INSTRUCTION}Review: {{text}}\nVerdict:")
    now = datetime.now(UTC)
    shape = Conversation((Turn("user", template),))
    encoder = PromptEncoder(Vocabulary(directory), shape, raw=False, submitted_at=now, sample=rows[:64])
    bare = AutoTokenizer.from_pretrained(str(directory))
    roads: dict[str, Callable[[int, int], object]] = {
        "ours": lambda start, end: encoder.encode(rows[start:end]),
        "the bare encode_batch of the differing text": lambda start, end: _ids(bare, texts[start:end]),
    }
    seconds: dict[str, list[float]] = {name: [] for name in roads}
    for _ in range(5):
        for name, encode in roads.items():
            started = time.perf_counter()
            for start in range(0, len(rows), ROWS_AT_ONCE):
                encode(start, start + ROWS_AT_ONCE)
            seconds[name].append(time.perf_counter() - started)
    rates = {name: len(rows) / statistics.median(some) for name, some in seconds.items()}
    for name, rate in rates.items():
        print(f"{name:45} {rate:>9,.0f} rows/s")
    ours, differing = rates.values()
    whole = [_chat(bare, template.fill({"text": text})) for text in texts[:500]]
    same = all(
        isinstance(prompt, Prompt) and [*encoder.prefix, *prompt.own_ids] == ids
        for prompt, ids in zip(encoder.encode(rows[:500]), _ids(bare, whole), strict=True)
    )
    print(f"{ours / differing:.2f} of the bare rate (goal: {GOAL}); ids are {'the same' if same else 'NOT the same'}.")


def _ids(tokenizer: AutoTokenizer, texts: list[str]) -> list[list[int]]:
    encodings = tokenizer.backend_tokenizer.encode_batch(texts, add_special_tokens=False)
    return [encoding.ids for encoding in encodings]


def _chat(tokenizer: AutoTokenizer, content: str) -> str:
    messages = [{"role": "user", "content": content}]
    return str(tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True))


if __name__ == "__main__":
    main()
