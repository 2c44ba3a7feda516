"""Stage 7: a person's statement, run so that SQLite, too, refuses a name that it does not know.

One in double quotes it takes for a text, and so answers a column that is not there with its own name in every row; one
in backticks it refuses.
"""

import re
from typing import Any

from sqlalchemy import Connection, CursorResult

#: Texts, names in other quotes and comments, within which double quotes stand for themselves; or a name.
_QUOTED = re.compile(
    r"""'(?:[^']|'')*'|`(?:[^`]|``)*`|\[[^\]]*\]|--[^\n]*|/\*.*?\*/|"(?P<name>(?:[^"]|"")+)\"""", re.DOTALL
)


def executed(connection: Connection, sql: str) -> tuple[CursorResult[Any], tuple[str, ...]]:
    """What it gives, and the names of its columns, where it gives rows."""
    on_sqlite = connection.dialect.name == "sqlite"
    result = connection.exec_driver_sql(_QUOTED.sub(_in_backticks, sql) if on_sqlite else sql)
    names = tuple(result.keys()) if result.returns_rows else ()
    if on_sqlite and "`" not in sql:  # it names some columns by their expressions, as they were written
        names = tuple(name.replace("`", '"') for name in names)
    return result, names


def _in_backticks(found: re.Match[str]) -> str:
    name = found["name"]
    return found[0] if name is None else "`{}`".format(name.replace('""', '"').replace("`", "``"))
