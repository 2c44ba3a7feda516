"""The table that every fleet answers, and what is to come of it."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from tests.fleet.sight import Answers

ROWS = 64
#: Of these, those that have no prompt, or one that is too long.
ERRORS = 2
_WORDS = ("broke", "on", "day", "two", "lovely", "light", "cup", "storm", "pillow", "日本")
#: Columns of keys, some of which are the fate of whoever answers the row (hooks/sitecustomize.py).
KEYS: dict[str, dict[int, str]] = {
    "id": {},
    "deadly": {2: "is killed", 6: "ends with 3"},
    "long": {3: "is late"},
    "final": {1: "last words"},
}


def write_table(path: Path) -> None:
    """Of many lengths, with a null, an empty text, and one that is too long for the model."""
    texts: list[str | None] = [" ".join(_WORDS[: 1 + row % 7]) + f" {row}" for row in range(ROWS)]
    texts[5], texts[17], texts[40] = None, "", "far too long " * 60
    keys = {column: [fates.get(row, f"r{row}") for row in range(ROWS)] for column, fates in KEYS.items()}
    pq.write_table(pa.table({"text": texts, **keys}), path)


def expected(calm: Answers, column: str, rows: int) -> Answers:
    """Of a job with other keys that ends after so many rows."""
    return {row: (KEYS[column].get(row, f"r{row}"), *calm[row][1:]) for row in range(rows)}
