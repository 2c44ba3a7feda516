"""What pydantic finds wrong with a job's fields, told to a person in a sentence."""

import json
from collections.abc import Sequence
from typing import Any

from pipeline.errors import nearest


def sentence(fault: Any, known: Sequence[str]) -> str:
    """`fault` is one of a ValidationError, `known` are the fields that a job has."""
    field = ".".join(str(part) for part in fault["loc"])
    if "." in field and fault["type"] in ("extra_forbidden", "missing"):
        return f"{field}: {'there is no such field' if fault['type'] == 'extra_forbidden' else 'it is missing'}."
    if fault["type"] == "extra_forbidden":
        return f'There is no field "{field}" in a job.{nearest(field, known)}'
    if fault["type"] == "missing":
        flag = "INPUT" if field == "inputs" else f"--{field}"
        return f"The job has no {field}; give {flag}, or `{field}:` in the job file."
    if fault["type"] == "string_type" and isinstance(fault["input"], bool | int | float):
        return _unquoted(field, fault["input"])
    message = str(fault["msg"]).removeprefix("Value error, ")
    end = "" if message.endswith(("?", ".")) else "."
    return f"{field}: {message}{end}" if field else f"{message[:1].upper()}{message[1:]}{end}"


def _unquoted(field: str, value: bool | int | float) -> str:
    meant = {True: "yes", False: "no"}[value] if isinstance(value, bool) else value
    return (
        f"{field}: without quotes, YAML reads this as {json.dumps(value)}, which is no text; "
        f'write it in quotes, such as "{meant}".'
    )
