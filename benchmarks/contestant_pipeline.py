"""A contestant of peers.py, in a process of its own: this engine. Arguments: model directory, workloads, answers."""

import json
import sys
from dataclasses import replace
from pathlib import Path

import product
import workloads

from pipeline.costs import usual_costs
from pipeline.settings import Settings


def main(directory: Path, work: Path, answers: Path) -> None:
    settings = Settings.from_environment()
    model, costs = product.load(directory), usual_costs("cpu")
    results = {}
    for workload in workloads.read(work):
        product.answer(model, replace(workload, rows=workload.rows[:2]), settings, costs)
        run = product.answer(model, workload, settings, costs)
        results[workload.name] = {"answers": run.answers, "seconds": run.seconds}
    answers.write_text(json.dumps({"version": "pipeline", "results": results}))


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
