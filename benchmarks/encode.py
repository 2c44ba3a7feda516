"""How fast rows become token ids: only what differs between them is encoded, as fast as a bare tokenizer would do that.

Rows are asked by a template, with the instruction before or behind the text, and as chats of their own. Beside each is
the bare `encode_batch` over the same differing text; the ids must be those of whole prompts. Two rates are told: by the
clock, where the tokenizer's own threads have all cores, and by the time that all cores spent, which is what counts in a
pool that has a process for each.
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
    templates = {
        "an instruction before": Template.parse(f"{INSTRUCTION}Review: {{text}}\nVerdict:"),
        "an instruction behind": Template.parse(f"Review: {{text}}\n{INSTRUCTION}Verdict:"),
    }
    chats = [[{"role": "system", "content": INSTRUCTION}, _user(text)] for text in texts]
    with tempfile.TemporaryDirectory() as home:
        directory = save_tokenizer(resolve_checkpoint("smollm2-135m"), Path(home))
        for name, template in templates.items():
            asked = [[_user(template.fill({"text": text}))] for text in texts]
            compare(name, directory, texts, Conversation((Turn("user", template),)), asked)
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
    seconds: dict[str, list[tuple[float, float]]] = {road: [] for road in roads}
    for _ in range(5):
        for road, encode in roads.items():
            by_clock, by_cores = time.perf_counter(), time.process_time()
            for start in range(0, len(rows), ROWS_AT_ONCE):
                encode(start, start + ROWS_AT_ONCE)
            seconds[road].append((time.perf_counter() - by_clock, time.process_time() - by_cores))
    rates = {
        road: [len(rows) / statistics.median(each) for each in zip(*some, strict=True)]
        for road, some in seconds.items()
    }
    for road, (by_clock, by_cores) in rates.items():
        print(f"{road:45} {by_clock:>9,.0f} rows/s, {by_cores:>9,.0f} rows per second of a core")
    shares = [ours / bare for ours, bare in zip(*rates.values(), strict=True)]
    whole = [_rendered(bare, chat) for chat in chats[:500]]
    same = all(
        isinstance(prompt, Prompt) and [*encoder.prefix, *prompt.own_ids] == ids
        for prompt, ids in zip(encoder.encode(rows[:500]), _ids(bare, whole), strict=True)
    )
    print(
        f"{shares[0]:.2f} of the bare rate by the clock, {shares[1]:.2f} by the cores' time (goal: {GOAL}); "
        f"ids are {'the same' if same else 'NOT the same'}."
    )


def _user(content: str) -> dict[str, str]:
    return {"role": "user", "content": content}


def _ids(tokenizer: AutoTokenizer, texts: list[str]) -> list[list[int]]:
    encodings = tokenizer.backend_tokenizer.encode_batch(texts, add_special_tokens=False)
    return [encoding.ids for encoding in encodings]


def _rendered(tokenizer: AutoTokenizer, chat: Chat) -> str:
    return str(tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True))


if __name__ == "__main__":
    main()
