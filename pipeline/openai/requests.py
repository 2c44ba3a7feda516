"""A line of a batch file as OpenAI's service takes it: what it asks of a model, or why it cannot be answered."""

import json
import math
from dataclasses import dataclass

from pipeline.errors import RowError
from pipeline.ingest.nesting import MOST_LEVELS, too_deep
from pipeline.openai.body import Body, as_object
from pipeline.openai.endpoints import Terms, Usual, read_body


@dataclass(frozen=True, slots=True)
class Request:
    line: int  #: its number in the file, from 1
    custom_id: str
    terms: Terms
    prompts: list[str]


@dataclass(frozen=True, slots=True)
class Refusal:
    """What an error line is made of."""

    line: int
    custom_id: str | None
    code: str
    message: str


def read_request(data: bytes, line: int, usual: Usual) -> Request | Refusal:
    custom_id = None
    try:
        entry = _entry(data)
        custom_id = _custom_id(entry)
        _require_text(data, entry)
        if too_deep(data) is not None:
            raise RowError("invalid_request", f"The line is nested more than {MOST_LEVELS} deep. Make it flatter.")
        if entry.get("method", "POST") != "POST":
            raise RowError("invalid_method", f"method must be POST, not {entry['method']!r}.")
        return Request(line, custom_id, *read_body(entry.get("url"), entry.get("body"), usual))
    except UnicodeError:
        return Refusal(line, custom_id, "invalid_text", "It is not text, or holds half of a surrogate pair.")
    except (ValueError, RecursionError) as error:
        return Refusal(line, None, "invalid_json_line", f"It is not JSON: {error}.")
    except RowError as error:
        return Refusal(line, custom_id, error.error_type, str(error))


def _entry(data: bytes) -> Body:
    """Raises UnicodeError for what is no text, and ValueError or RecursionError for what is no JSON."""
    return as_object(json.loads(data.decode(), parse_float=_number, parse_constant=_number), "The line")


def _require_text(data: bytes, entry: Body) -> None:
    """Raises UnicodeError for half of a surrogate pair."""
    if b"\\u" in data:  # which can write what no text has
        json.dumps(entry, ensure_ascii=False).encode()


def _custom_id(entry: Body) -> str:
    """Raises RowError, or UnicodeError for what is no text."""
    custom_id = entry.get("custom_id")
    if not isinstance(custom_id, str) or not custom_id:
        raise RowError("missing_custom_id", "custom_id must be a text of your own, other on each line.")
    custom_id.encode()
    return custom_id


def _number(text: str) -> float:
    """Python would also take NaN, and make infinity of 1e999."""
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text} is no number of JSON that a computer can hold")
    return number
