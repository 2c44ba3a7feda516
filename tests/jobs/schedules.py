"""What a schedule tells of itself, and a way to have it due."""

import json
from collections.abc import Callable
from typing import Any

from click.testing import Result

from pipeline.store.schedules import Schedules


def tell(run: Callable[..., Result], name: str = "night") -> dict[str, Any]:
    told: dict[str, Any] = json.loads(run("schedule", "show", name, "--json").stdout)
    return told


def make_due(desk, name: str = "night", ago_s: float = 60.0) -> None:
    schedules = Schedules(desk.database)
    schedules.pause(schedules.find(name))
    assert schedules.resume(schedules.find(name), schedules.now() - ago_s)
