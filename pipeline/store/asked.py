"""Stage 7: what a job asks of each row, read off the JSON that the database keeps of it."""

import json
from typing import Any


def asked(spec_json: str) -> list[dict[str, Any]]:
    """The fields of a job for each question, which asks nothing else; or of this one."""
    spec: dict[str, Any] = json.loads(spec_json)
    return [spec | question["fields"] for question in spec.get("questions", ())] or [spec]


def question_names(spec_json: str) -> list[str]:
    """None where there is only one."""
    return [question["name"] for question in json.loads(spec_json).get("questions", ())]
