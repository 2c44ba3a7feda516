"""A contestant of peers.py, in a process of its own: transformers `generate`, left padding, batches of 16 rows.

It keeps keys and values from token to token, and computes the prefix for each row.
"""

import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
import transformers

BATCH_ROWS = 16


def main(directory: Path, work: Path, answers: Path) -> None:
    network = transformers.AutoModelForCausalLM.from_pretrained(
        directory, dtype=torch.float32, attn_implementation="sdpa"
    ).eval()
    network.generation_config.eos_token_id = None
    results = {}
    for workload in json.loads(work.read_text()):
        rows = [workload["prefix"] + row for row in workload["rows"]]
        generate(network, [row[-16:] for row in rows[:2]], 2)
        started = time.perf_counter()
        found = generate(network, rows, workload["new_tokens"])
        results[workload["name"]] = {"answers": found, "seconds": time.perf_counter() - started}
    version = f"transformers {transformers.__version__} generate"
    answers.write_text(json.dumps({"version": version, "results": results}))


@torch.inference_mode()
def generate(network: Any, rows: Sequence[Sequence[int]], new_tokens: int) -> list[list[int]]:
    answers: list[list[int]] = []
    for first in range(0, len(rows), BATCH_ROWS):
        batch = [list(row) for row in rows[first : first + BATCH_ROWS]]
        longest = max(map(len, batch))
        out = network.generate(
            input_ids=torch.tensor([[0] * (longest - len(row)) + row for row in batch]),
            attention_mask=torch.tensor([[0] * (longest - len(row)) + [1] * len(row) for row in batch]),
            do_sample=False,
            max_new_tokens=new_tokens,
        )
        answers += out[:, longest:].tolist()
    return answers


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
