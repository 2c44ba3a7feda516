"""Stage 1 begins here: what a person names (files, folders, patterns, URLs, `-`) as one table in one schema."""

import hashlib
import sys
from collections.abc import Collection, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from pipeline.errors import InputError, NoRows
from pipeline.ingest import selected
from pipeline.ingest.columns import common_schema, conform
from pipeline.ingest.files import InputFile, StandardInput
from pipeline.ingest.formats import JSON_LINES, Format, file_and_format
from pipeline.ingest.lines import Readable
from pipeline.ingest.listing import distinct, listed
from pipeline.ingest.places import local_path
from pipeline.ingest.taking import Taking, Tally

Part = InputFile | StandardInput | selected.Selected

#: Parts that are looked into for edges.
_MOST_PARTS = 64
_BYTES = "+"


class Edge(NamedTuple):
    """Where a stretch of rows may begin."""

    place: int  #: of the row, among all
    part: Part
    form: Format
    row: int  #: its place in the part


@dataclass(frozen=True, slots=True)
class Source:
    """The inputs of a job as one table: their rows end to end, in the order of `parts`."""

    parts: tuple[tuple[Part, Format], ...]
    schema: pa.Schema
    taking: Taking | None = None  #: None: all rows are taken
    doubtful: bool = False  #: its files are not those of before to the letter, and may hold the same

    @property
    def is_stream(self) -> bool:
        """Whether this can be read only once."""
        return any(isinstance(part, StandardInput) for part, _ in self.parts)

    @property
    def may_differ(self) -> bool:
        """Whether reading this again may give other rows or another order, and the digest does not tell."""
        return self.doubtful or not all(isinstance(part, InputFile) for part, _ in self.parts)

    def require_more_than_one_reading(self) -> None:
        """Raises InputError for standard input, which a look would consume."""
        if self.is_stream:
            raise InputError(
                "Standard input cannot be looked at before it is answered: it can be read only once. "
                "Write it to a file first, such as rows.jsonl."
            )

    def columns(self) -> list[str]:
        return list(self.schema.names)

    def digest(self) -> str:
        """sha256 over absolute paths, sizes and times of change, a plus sign, and all bytes; of a SELECT the sha256
        alone; or "stdin"."""
        facts, n_bytes = hashlib.sha256(), 0
        for part, _ in self.parts:
            if isinstance(part, StandardInput):
                return "stdin"
            told = part.facts()
            facts.update(f"{told}\n".encode(errors="surrogateescape"))
            n_bytes += told[1] if isinstance(told[1], int) else 0
        return f"{facts.hexdigest()}{_BYTES}{n_bytes}" if n_bytes else facts.hexdigest()

    def batches(self, tally: Tally | None = None) -> Generator[tuple[str, pa.RecordBatch]]:
        """All rows that are taken, in the common schema, with the name of the file that they are from.

        Raises InputError.
        """
        tally = tally or Tally()
        highest = self.taking.bound((at, batch) for at, _, batch in self._whole()) if self.taking else 0
        for position, name, batch in self._whole():
            rows = self.taking.rows(batch, position, highest) if self.taking else batch
            tally.read += batch.num_rows
            tally.left_out += batch.num_rows - rows.num_rows
            yield name, rows

    def edges(self, columns: Collection[str]) -> tuple[list[Edge], int]:
        """Where stretches of rows may begin, in the order of the rows, and the number of rows.

        None and 0 where a part can be read from its start alone, where only some rows are taken, or where the parts
        are so many that it takes long to look into all. Raises InputError.
        """
        found: list[Edge] = []
        n_rows = 0
        for part, form in self.parts if self.taking is None and len(self.parts) <= _MOST_PARTS else ():
            if form.edges is None:
                return [], 0
            *rows, end = form.edges(part, columns)
            found += [Edge(n_rows + row, part, form, row) for row in rows]
            n_rows += end
        return found, n_rows

    def stretches(self, edges: Iterable[Edge], columns: Collection[str]) -> Iterator[pa.RecordBatch]:
        """What is there, in their order, in the common schema. Raises InputError."""
        schema = pa.schema([self.schema.field(name) for name in columns])
        for (part, form), its in groupby(edges, key=lambda edge: (edge.part, edge.form)):
            if form.stretches is not None:
                found = form.stretches(part, [edge.row for edge in its], columns)
                yield from (conform(batch, schema, part.name) for batch in found)

    def about_rows(self) -> int | None:
        """How many rows there are, taken or not, by the sizes of files of lines and by their first blocks.

        None where a part does not tell as cheaply.
        """
        counts = [_about_rows(part, form) for part, form in self.parts]
        known = [count for count in counts if count is not None]
        return sum(known) if len(known) == len(counts) else None

    def without_rows(self) -> NoRows:
        """For whoever finds that there are none."""
        why = "The input has no rows" if self.taking is None else "--where and --sample take none of the input's rows"
        return NoRows(f"{why}, so there is nothing to answer.")

    def _whole(self) -> Iterator[tuple[int, str, pa.RecordBatch]]:
        """With the place of each batch's first row among all."""
        position = 0
        for part, form in self.parts:
            for batch in form.batches(part, self.schema):
                yield position, part.name, conform(batch, self.schema, part.name)
                position += batch.num_rows


def _about_rows(part: Part, form: Format) -> int | None:
    if not isinstance(part, InputFile) or part.compression is not None or form.rows_in is None:
        return None
    head = part.head()
    return 0 if head is None else form.rows_in(head) * part.facts()[1] // len(head.data)


def is_same(digest: str, other: str) -> bool:
    """Those of earlier versions have no bytes."""
    return digest.partition(_BYTES)[0] == other.partition(_BYTES)[0]


def bytes_of(digest: str) -> int | None:
    """Of all files; None where it tells none."""
    return int(digest.partition(_BYTES)[2] or 0) or None


def resolve(inputs: Sequence[str], stdin: Readable | None = None) -> Source:
    """Reads the head of every file, and the first block of standard input. Raises InputError."""
    if "-" in inputs and len(inputs) > 1:
        raise InputError("Standard input (-) cannot be joined with other inputs. Give it alone, or as a file.")
    parts: list[tuple[Part, Format]]
    if "-" in inputs:
        parts = [(StandardInput(stdin or sys.stdin.buffer), JSON_LINES)]
    else:
        parts = [file_and_format(place) for place in distinct(inputs)]
    return _joined(parts)


def resolve_selected(rows: selected.Selected) -> Source:
    """Reads the first rows. Raises InputError, or TryAgain where the database is away."""
    return _joined([(rows, Format(selected.schema, selected.batches))])


def _joined(parts: Sequence[tuple[Part, Format]]) -> Source:
    return Source(tuple(parts), common_schema([(part.name, form.schema(part)) for part, form in parts]))


def is_input(inputs: Sequence[str], path: Path) -> bool:
    """Whether the file is one of those that the inputs name, so that it must not be written over."""
    if not path.exists():
        return False
    for name in inputs:
        try:
            found = [] if name == "-" or local_path(name) is None else listed(name)
        except InputError:
            continue
        if any(path.samefile(part) for part in found):
            return True
    return False
