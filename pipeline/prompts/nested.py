"""Stage 2: a row's value that has others in it, as JSON has them: in lists, and under names."""

import datetime
import decimal
import uuid
from collections.abc import Callable, Iterator

from pipeline.errors import RowError


def strings(value: object) -> Iterator[str]:
    """All texts in it, names included."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for name, part in value.items():
            yield name
            yield from strings(part)
    elif isinstance(value, list):
        for part in value:
            yield from strings(part)


def with_strings(value: object, change: Callable[[str], str]) -> object:
    """The same with each text changed, names included."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {change(name): with_strings(part, change) for name, part in value.items()}
    if isinstance(value, list):
        return [with_strings(part, change) for part in value]
    return value


#: Lists and objects within each other: more than anybody writes, and what every reader can go through.
_MOST_LEVELS = 100


def json_like(column: str, value: object, levels: int = _MOST_LEVELS) -> object:
    """Dates, decimals and the like become text, and maps become dicts.

    Raises RowError for what is no value of JSON, or has more than so many levels.
    """
    if isinstance(value, str):
        return encodable(column, value)
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, decimal.Decimal | uuid.UUID):
        return str(value)
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    if levels == 0:
        raise RowError(
            "wrong_type",
            f'The column "{column}" holds lists or objects within each other in this row that are more than '
            f"{_MOST_LEVELS} deep. Write what is that deep as text.",
        )
    if isinstance(value, dict):
        return {encodable(column, str(name)): json_like(column, part, levels - 1) for name, part in value.items()}
    if isinstance(value, list | tuple):
        if value and all(isinstance(part, tuple) and len(part) == 2 for part in value):  # so Arrow gives a map
            return json_like(column, dict(value), levels)
        return [json_like(column, part, levels - 1) for part in value]
    raise not_text(column, value)


def not_text(column: str, value: object) -> RowError:
    """For a value that cannot be written into a prompt."""
    first = next(iter(value), None) if isinstance(value, dict) else 0 if isinstance(value, list) else None
    remedy = "turn it into text" if first is None else f"name what is in it, such as {column}.{first}"
    return RowError(
        "wrong_type",
        f'The column "{column}" holds a value of type {type(value).__name__} in this row. A prompt takes text, '
        f"numbers, true or false, and dates; {remedy}.",
    )


def encodable(column: str, text: str) -> str:
    """Raises RowError for half of a surrogate pair, as which a byte that is no UTF-8 is read, too (strange.py)."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise RowError(
            "not_text",
            f'The column "{column}" holds {_broken(text[error.start])} at character {error.start + 1} in this row, '
            "which is no text; repair the column.",
        ) from error
    return text


def _broken(character: str) -> str:
    byte = ord(character) - 0xDC00
    return f"the byte 0x{byte:02x}, which is no UTF-8," if 0x80 <= byte <= 0xFF else "half of a surrogate pair"
