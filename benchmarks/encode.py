"""How fast rows become token ids: only what differs between them is encoded, as fast as a bare tokenizer would do that.

Rows are asked by a template, and as chats of their own. Beside both is the bare `encode_batch` over the same differing
text; the ids must be those of whole prompts.
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
from pipeline.prompts.conversation import Conversation, Shape, Turn
from pipeline.prompts.messages_column import MessagesColumn
from pipeline.prompts.template import Template
from pipeline.prompts.tokens import PromptEncoder
from pipeline.prompts.vocabulary import Vocabulary
from pipeline.rows import Prompt, Row

GOAL = 0.9
INSTRUCTION = "Read what a customer wrote, and weigh what they praise against what they miss. " * 60
ROWS_AT_ONCE = 512

Chat = list[dict[str, str]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("table", type=Path, help="a Parquet file with a column of texts")
    parser.add_argument("--column", default="text")
    parser.add_argument("--rows", type=int, default=20_000, help="so many, the table's over and over")
    arguments = parser.parse_args()
    texts = [text for text in pq.read_table(arguments.table)[arguments.column].to_pylist() if text]
    texts = (texts * (arguments.rows // len(texts) + 1))[: arguments.rows]
    template = Template.parse(f"{INSTRUCTION}Review: {{text}}\nVerdict:")
    asked = [[_user(template.fill({"text": text}))] for text in texts]
    chats = [[{"role": "system", "content": INSTRUCTION}, _user(text)] for text in texts]
    with tempfile.TemporaryDirectory() as home:
        directory = save_tokenizer(resolve_checkpoint("smollm2-135m"), Path(home))
        compare("a template", directory, texts, Conversation((Turn("user", template),)), asked)
        compare("chats", directory, texts, MessagesColumn("chat"), chats)


def compare(name: str, directory: Path, texts: list[str], shape: Shape, chats: list[Chat]) -> None:
    rows = [Row(place, str(place), {"text": text, "chat": chats[place]}) for place, text in enumerate(texts)]
    now = datetime.now(UTC)
    encoder = PromptEncoder(Vocabulary(directory), shape, raw=False, submitted_at=now, sample=rows[:64])
    bare = AutoTokenizer.from_pretrained(str(directory))
    roads: dict[str, Callable[[int, int], object]] = {
        f"ours, {name}": lambda start, end: encoder.encode(rows[start:end]),
        "the bare encode_batch of the differing text": lambda start, end: _ids(bare, texts[start:end]),
    }
    seconds: dict[str, list[float]] = {road: [] for road in roads}
    for _ in range(5):
        for road, encode in roads.items():
            started = time.perf_counter()
            for start in range(0, len(rows), ROWS_AT_ONCE):
                encode(start, start + ROWS_AT_ONCE)
            seconds[road].append(time.perf_counter() - started)
    rates = {road: len(rows) / statistics.median(some) for road, some in seconds.items()}
    for road, rate in rates.items():
        print(f"{road:45} {rate:>9,.0f} rows/s")
    ours, differing = rates.values()
    whole = [_rendered(bare, chat) for chat in chats[:500]]
    same = all(
        isinstance(prompt, Prompt) and [*encoder.prefix, *prompt.own_ids] == ids
        for prompt, ids in zip(encoder.encode(rows[:500]), _ids(bare, whole), strict=True)
    )
    print(f"{ours / differing:.2f} of the bare rate (goal: {GOAL}); ids are {'the same' if same else 'NOT the same'}.")


def _user(content: str) -> dict[str, str]:
    return {"role": "user", "content": content}


def _ids(tokenizer: AutoTokenizer, texts: list[str]) -> list[list[int]]:
    encodings = tokenizer.backend_tokenizer.encode_batch(texts, add_special_tokens=False)
    return [encoding.ids for encoding in encodings]


def _rendered(tokenizer: AutoTokenizer, chat: Chat) -> str:
    return str(tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True))


if __name__ == "__main__":
    main()
