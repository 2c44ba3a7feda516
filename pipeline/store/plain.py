"""Stage 7: values of any column as JSON and CSV know them."""

import base64
import json
import math
from typing import Any


def plain(value: object) -> Any:
    """As JSON knows it: dates as ISO text, bytes as base64, decimals as text, not-a-number as null."""
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else None
        case bytes():
            return base64.b64encode(value).decode()
        case dict():
            return {str(name): plain(inner) for name, inner in value.items()}
        case list() | tuple():
            return [plain(inner) for inner in value]
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, default=plain)


def cell(value: object) -> str | None:
    """As text; what is nested as JSON."""
    if isinstance(value, dict | list | tuple):
        return as_json(value)
    found = plain(value)
    return found if found is None or isinstance(found, str) else json.dumps(found, ensure_ascii=False)


def as_json(value: object) -> str:
    """On one line. Most values are plain already, and are not gone through once more."""
    try:
        return _ENCODER.encode(value)
    except ValueError:  # a number that is not finite
        return json.dumps(plain(value), ensure_ascii=False)
