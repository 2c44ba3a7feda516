"""What sharing is taken to cost in a fleet, of which nobody knows yet which device will answer."""

import json
import math
from dataclasses import replace

from pipeline.costs import Costs, usual_costs
from pipeline.spec import JobSpec
from pipeline.store.records import Role
from pipeline.store.registry import Registry


def expected_costs(spec: JobSpec, registry: Registry) -> Costs:
    """Estimates, for the devices that are there. A deterministic job shares the job's prefix alone."""
    facts = [json.loads(worker.facts or "{}") for worker in registry.alive() if worker.role is Role.GPU]
    kinds = {told.get("device_type") for told in facts}
    usual = usual_costs("cpu" if kinds == {"cpu"} else "cuda")
    return replace(usual, level_s=math.inf) if spec.deterministic else usual
