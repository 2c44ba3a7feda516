"""This engine against transformers `generate` alone, on W2: `peers.py` without vLLM and without the other workloads."""

import argparse
import sys
from dataclasses import replace

import peers
import report
import small_model
import workloads

from pipeline.prompts.vocabulary import Vocabulary


def main() -> None:
    arguments = _arguments()
    print(report.machine())
    directory = small_model.directory()
    workload = workloads.few_shot(Vocabulary(directory), arguments.rows)
    print(workload, flush=True)
    ours = peers.contest("pipeline", sys.executable, directory, [workload])
    few = replace(workload, rows=workload.rows[: arguments.peer_rows])
    theirs = peers.contest("transformers", sys.executable, directory, [few])
    if ours is None:
        sys.exit(1)
    print(report.table(peers.HEAD, peers.lines(workload, ours, {"transformers": theirs})))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=256)
    parser.add_argument("--peer-rows", type=int, default=32)
    parser.add_argument("--quick", action="store_true", help="two rows: does it run?")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.rows = arguments.peer_rows = 2
    return arguments


if __name__ == "__main__":
    main()
