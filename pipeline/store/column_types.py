"""Stage 6: what the tables' columns hold that no database knows by itself, and how it is kept there."""

import json
import re
import struct
from collections.abc import Callable, Sequence
from enum import StrEnum
from functools import partial
from typing import Any

from sqlalchemy import ColumnElement, Dialect, Enum, Integer, LargeBinary, Text, TypeDecorator, func
from sqlalchemy.types import TypeEngine

from pipeline.store import nested

#: U+241B, the picture of an escape, which hardly any text holds; PostgreSQL takes no NUL, and no database half a pair.
_ESCAPE = "\u241b"
_ESCAPED = re.compile(f"[\0\ud800-\udfff{_ESCAPE}]")
_ESCAPES = re.compile(f"{_ESCAPE}([0-9a-f]{{4}})")

#: struct's letters for unsigned numbers, by their bytes.
_CODES = {2: "H", 4: "I", 8: "Q"}
_HEAD = struct.Struct("<QB")


class AnyText(TypeDecorator[str]):
    """Any str, as it is but for three: a NUL, half of a surrogate pair, and the escape itself are kept as the escape
    and four hexadecimal digits, so that each comes back as it was."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        return value and _ESCAPED.sub(lambda found: f"{_ESCAPE}{ord(found[0]):04x}", value)

    def process_result_value(self, value: str | None, dialect: Dialect) -> str | None:
        return value and _ESCAPES.sub(lambda found: chr(int(found[1], 16)), value)


def unescaped(values: Sequence[str | None]) -> Sequence[str | None]:
    """Of texts as they are kept, as they were. Hardly any holds an escape, so they are not looked at one by one."""
    if _ESCAPE not in "".join(filter(None, values)):
        return values
    return [value and _ESCAPES.sub(lambda found: chr(int(found[1], 16)), value) for value in values]


class RowIds(TypeDecorator[tuple[int, ...]]):
    """The lowest as uint64, then each one's distance from it in as few bytes as hold them all; little-endian.

    Before the third version of the tables they were uint64, end to end: an even number of bytes, as this never is.
    """

    impl = LargeBinary
    cache_ok = True

    def process_bind_param(self, value: Sequence[int] | None, dialect: Dialect) -> bytes | None:
        if value is None:
            return None
        lowest = min(value, default=0)
        distances = [row_id - lowest for row_id in value]
        width = next(width for width, code in _CODES.items() if max(distances, default=0) < 1 << 8 * width)
        return struct.pack(f"<QB{len(distances)}{_CODES[width]}", lowest, width, *distances)

    def process_result_value(self, value: bytes | None, dialect: Dialect) -> tuple[int, ...] | None:
        if value is None:
            return None
        if len(value) % 2 == 0:
            return struct.unpack(f"<{len(value) // 8}Q", value)
        lowest, width = _HEAD.unpack_from(value)
        distances = struct.unpack_from(f"<{(len(value) - _HEAD.size) // width}{_CODES[width]}", value, _HEAD.size)
        return tuple(lowest + distance for distance in distances)

    @staticmethod
    def is_single(column: ColumnElement[Any]) -> ColumnElement[bool]:
        """Whether it holds one number, told by the database; null where it holds none."""
        return func.length(column, type_=Integer) == _HEAD.size + min(_CODES)


class _Nested(TypeDecorator[tuple[Any, ...]]):
    """As JSON text; NULL where there is nothing."""

    impl = AnyText
    cache_ok = True

    def __init__(self, read: Callable[[str | None], tuple[Any, ...]]) -> None:
        super().__init__()
        self.read = read

    def process_bind_param(self, value: tuple[Any, ...] | None, dialect: Dialect) -> str | None:
        return nested.to_json(value or ())

    def process_result_value(self, value: str | None, dialect: Dialect) -> tuple[Any, ...]:
        return self.read(value)


Samples = partial(_Nested, nested.samples)
Logprobs = partial(_Nested, nested.logprobs)
Labels = partial(_Nested, nested.labels)
Scores = partial(_Nested, nested.scores)


class Embedding(TypeDecorator[bytes]):
    """float32 numbers, little-endian; in PostgreSQL as text that pgvector casts: `embedding::vector`."""

    impl = LargeBinary
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        return Text() if dialect.name == "postgresql" else LargeBinary()

    def process_bind_param(self, value: bytes | None, dialect: Dialect) -> bytes | str | None:
        if value is None or dialect.name != "postgresql":
            return value
        # Nine digits tell all float32 numbers apart.
        return f"[{','.join(f'{number:.9g}' for number in struct.unpack(f'<{len(value) // 4}f', value))}]"

    def process_result_value(self, value: Any, dialect: Dialect) -> bytes | None:
        if isinstance(value, str):
            numbers = json.loads(value)
            return struct.pack(f"<{len(numbers)}f", *numbers)
        return None if value is None else bytes(value)


def word(words: type[StrEnum]) -> Enum:
    """The enum's values as plain text, so that a new state needs no migration."""
    return Enum(words, native_enum=False, length=16, values_callable=lambda kind: [word.value for word in kind])
