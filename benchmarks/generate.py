"""This engine against transformers `generate`: rows a second on one machine, in one run, with the same tokens out.

Workload: review sentences after a few-shot instruction of about 900 tokens, 16 greedy tokens each, fp32 on the CPU. The
peer pads left, batches 16 rows, and keeps its own keys and values; its rate is taken over --peer-rows rows.
"""

import argparse
import dataclasses
import sys
import time
from pathlib import Path

import pyarrow.parquet as pq
import torch

from pipeline.inference.checkpoint import resolve_checkpoint
from pipeline.inference.engine import Engine
from pipeline.inference.loading import load_model, save_tokenizer
from pipeline.inference.model import LanguageModel
from pipeline.inference.prefix_store import PrefixStore
from pipeline.prompts.vocabulary import Vocabulary
from pipeline.rows import Batch, Generate, Prompt
from pipeline.settings import Settings

DATA = Path(__file__).parents[2] / "shared/data/amazon_review_snippets.parquet"
NEW_TOKENS = 16
EXAMPLE_TOKENS = 890
GOAL = 15.0


def main() -> None:
    arguments = _arguments()
    if not DATA.exists():
        sys.exit(f"The reviews that this benchmark reads are not here: {DATA}")
    checkpoint = resolve_checkpoint("smollm2-135m")
    vocabulary = Vocabulary(save_tokenizer(checkpoint, Settings().home))
    prefix, rows = _workload(vocabulary, arguments.rows)
    print(f"{len(rows)} rows, {len(prefix)} tokens shared, {NEW_TOKENS} tokens out, {torch.get_num_threads()} threads")
    model = _never_stopping(load_model(checkpoint, "cpu"))
    ours, rate = _engine(model, prefix, rows, arguments.batch_rows)
    print(f"pipeline:              {rate:8.2f} rows/s")
    peer_rows = rows[: arguments.peer_rows]
    model.network.set_attn_implementation("sdpa")
    theirs, peer_rate = _generate(model.network, prefix, peer_rows)
    print(f"transformers generate: {peer_rate:8.2f} rows/s (over {len(peer_rows)} rows)")
    same = sum(a == b for a, b in zip(ours, theirs, strict=False))
    print(f"ratio: {rate / peer_rate:.1f} (goal {GOAL:.0f}); same tokens on {same} of {len(theirs)} rows")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=256)
    parser.add_argument("--peer-rows", type=int, default=32)
    parser.add_argument("--batch-rows", type=int, default=Settings().batch_rows)
    return parser.parse_args()


def _workload(vocabulary: Vocabulary, count: int) -> tuple[tuple[int, ...], list[tuple[int, ...]]]:
    table = pq.read_table(DATA).to_pylist()
    shots = [f"Review: {row['text']}\nSentiment: {'positive' if row['rating'] > 0 else 'negative'}" for row in table]
    examples: list[str] = []
    while len(vocabulary.encode("\n\n".join(examples)).ids) < EXAMPLE_TOKENS:
        examples.append(shots[-1 - len(examples)])
    head = "Say whether the review is positive or negative, then why.\n\n" + "\n\n".join(examples) + "\n\nReview:"
    rows = [tuple(vocabulary.encode(f" {row['text']}\nSentiment:").ids) for row in table[:count]]
    return tuple(vocabulary.encode(head).ids), rows


def _never_stopping(model: LanguageModel) -> LanguageModel:
    """Both sides generate the same number of tokens."""
    return dataclasses.replace(model, stop_ids=frozenset())


def _engine(model, prefix, rows, batch_rows: int) -> tuple[list[list[int]], float]:
    engine = Engine(model, PrefixStore(1 << 30), lambda ids: " ".join(map(str, ids)))
    prompts = [Prompt(place, str(place), ids) for place, ids in enumerate(rows)]
    prompts.sort(key=lambda prompt: len(prompt.own_ids))
    started, answers = time.perf_counter(), {}
    for first in range(0, len(prompts), batch_rows):
        batch = Batch("bench", first, 1, 1, prefix, tuple(prompts[first : first + batch_rows]))
        completions, _ = engine.answer(batch, Generate(NEW_TOKENS))
        answers |= {c.row_id: [int(token) for token in c.output.split()] for c in completions}
    seconds = time.perf_counter() - started
    return [answers[place] for place in range(len(rows))], len(rows) / seconds


@torch.inference_mode()
def _generate(network, prefix, rows, batch_rows: int = 16) -> tuple[list[list[int]], float]:
    started, answers = time.perf_counter(), []
    for first in range(0, len(rows), batch_rows):
        batch = [prefix + row for row in rows[first : first + batch_rows]]
        longest = max(map(len, batch))
        ids = torch.tensor([(0,) * (longest - len(row)) + row for row in batch])
        mask = torch.tensor([[0] * (longest - len(row)) + [1] * len(row) for row in batch])
        out = network.generate(
            input_ids=ids, attention_mask=mask, do_sample=False, min_new_tokens=NEW_TOKENS, max_new_tokens=NEW_TOKENS
        )
        answers += out[:, longest:].tolist()
    return answers, len(rows) / (time.perf_counter() - started)


if __name__ == "__main__":
    main()
