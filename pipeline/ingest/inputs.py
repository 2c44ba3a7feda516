"""Stage 1 begins here: what a person names (files, folders, patterns, `-`) resolved to one table in one schema."""

import hashlib
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from glob import glob
from pathlib import Path

import pyarrow as pa

from pipeline.errors import InputError
from pipeline.ingest.columns import common_schema, conform
from pipeline.ingest.faults import reading
from pipeline.ingest.files import InputFile, StandardInput
from pipeline.ingest.formats import JSON_LINES, Format, file_and_format, is_supported
from pipeline.ingest.lines import Readable


@dataclass(frozen=True, slots=True)
class Source:
    """The inputs of a job as one table: their rows end to end, in the order of `parts`."""

    parts: tuple[tuple[InputFile | StandardInput, Format], ...]
    schema: pa.Schema

    @property
    def is_stream(self) -> bool:
        """Whether this can be read only once."""
        return any(isinstance(part, StandardInput) for part, _ in self.parts)

    def columns(self) -> list[str]:
        return list(self.schema.names)

    def digest(self) -> str:
        """sha256 over absolute paths, sizes and times of change, or "stdin"."""
        if self.is_stream:
            return "stdin"
        facts = hashlib.sha256()
        for part, _ in self.parts:
            facts.update(f"{_facts(Path(part.name))}\n".encode(errors="surrogateescape"))
        return facts.hexdigest()

    def batches(self) -> Iterator[tuple[str, pa.RecordBatch]]:
        """All rows in the common schema, with the name of the file that they are from. Raises InputError."""
        for part, form in self.parts:
            for batch in form.batches(part, self.schema):
                yield part.name, conform(batch, self.schema, part.name)


def resolve(inputs: Sequence[str], stdin: Readable | None = None) -> Source:
    """Reads the head of every file, and the first block of standard input. Raises InputError."""
    if "-" in inputs and len(inputs) > 1:
        raise InputError("Standard input (-) cannot be joined with other inputs. Give it alone, or as a file.")
    parts: list[tuple[InputFile | StandardInput, Format]]
    if "-" in inputs:
        parts = [(StandardInput(stdin or sys.stdin.buffer), JSON_LINES)]
    else:
        parts = [file_and_format(path) for path in _paths(inputs)]
    return Source(tuple(parts), common_schema([(part.name, form.schema(part)) for part, form in parts]))


def is_input(inputs: Sequence[str], path: Path) -> bool:
    """Whether the file is one of those that the inputs name, so that it must not be written over."""
    if not path.exists():
        return False
    for name in inputs:
        try:
            found = _expanded(name) if name != "-" else []
        except InputError:
            continue
        if any(path.samefile(part) for part in found):
            return True
    return False


def _paths(inputs: Sequence[str]) -> list[Path]:
    paths: dict[Path, Path] = {}
    for name in inputs:
        with reading(name):
            found = _expanded(name)
        for path in found:
            if path.resolve() in paths:
                raise InputError(f"{path} is given twice, so its rows would be answered twice. Give every file once.")
            paths[path.resolve()] = path
    return list(paths.values())


def _expanded(name: str) -> list[Path]:
    path = Path(name)
    if path.is_dir():
        return _files_below(path)
    if path.is_file():
        return [path]
    if path.exists():
        raise InputError(f"{name} is neither a file nor a folder. For a pipe, give JSON Lines on standard input (-).")
    if not any(character in name for character in "*?["):
        raise InputError(f"{name} does not exist. Check the name, and the folder that you are in.")
    found = sorted(Path(match) for match in glob(name, recursive=True))  # noqa: PTH207 - Path.glob takes no absolute pattern
    if files := [path for path in found if path.is_file()]:
        return files
    raise InputError(f"No file matches the pattern {name}. Check it, and the folder that you are in.")


def _files_below(directory: Path) -> list[Path]:
    """Names that begin with a dot or an underscore are other programs' notes, as in Spark's folders."""
    files = [
        path
        for path in sorted(directory.rglob("*"))
        if path.is_file()
        and is_supported(path)
        and not any(part.startswith((".", "_")) for part in path.relative_to(directory).parts)
    ]
    if not files:
        raise InputError(f"There is no file of a supported kind in the folder {directory}.")
    return files


def _facts(path: Path) -> tuple[str, int, int]:
    with reading(str(path)):
        status = path.stat()
    return str(path.resolve()), status.st_size, status.st_mtime_ns
