"""A contestant of peers.py, run by a Python that has vLLM's CPU build and nothing of ours: vLLM, prefix caching on."""

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import torch

if os.environ.get("ATEN_CPU_CAPABILITY") == "avx2":
    torch.cpu._is_avx512_supported = lambda: False  # it asks the processor itself

import vllm
from vllm.sampling_params import StructuredOutputsParams


def main(directory: Path, work: Path, answers: Path) -> None:
    llm = vllm.LLM(
        model=str(directory), dtype="float32", enable_prefix_caching=True, max_model_len=2048, max_num_seqs=256
    )
    results = {}
    for workload in json.loads(work.read_text()):
        prompts = [{"prompt_token_ids": workload["prefix"] + row} for row in workload["rows"]]
        sampling = _sampling(workload)
        llm.generate(prompts[:2], sampling, use_tqdm=False)
        llm.reset_prefix_cache()
        started = time.perf_counter()
        outputs = [output.outputs[0] for output in llm.generate(prompts, sampling, use_tqdm=False)]
        seconds = time.perf_counter() - started
        found = [output.text if workload["labels"] else list(output.token_ids) for output in outputs]
        results[workload["name"]] = {"answers": found, "seconds": seconds}
    answers.write_text(json.dumps({"version": f"vLLM {vllm.__version__}", "results": results}))


def _sampling(workload: dict[str, Any]) -> vllm.SamplingParams:
    """A label has as many tokens as the longest needs; it spends none on an end-of-text."""
    limit = workload["new_tokens"]
    if workload["labels"]:
        choice = StructuredOutputsParams(choice=workload["labels"])
        return vllm.SamplingParams(temperature=0, max_tokens=limit, structured_outputs=choice)
    return vllm.SamplingParams(temperature=0, max_tokens=limit, ignore_eos=True, detokenize=False)


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
