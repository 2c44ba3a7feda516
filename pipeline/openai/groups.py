"""A batch file sorted into groups of lines that one job can answer, each an input like any other."""

import hashlib
import json
from codecs import BOM_UTF8
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import BinaryIO

from pipeline.errors import InputError
from pipeline.ingest.faults import reading
from pipeline.ingest.places import written
from pipeline.openai.requests import Fields, Refusal, Request, read_request

#: Each is a job of its own, which loads the model anew.
_MOST_GROUPS = 100


@dataclass(frozen=True, slots=True)
class Group:
    """`rows` is a JSON Lines file of the columns line, custom_id and content."""

    rows: Path
    url: str
    fields: Fields

    def custom_ids(self) -> Iterator[tuple[int, str]]:
        """(line, custom_id) of each row."""
        with self.rows.open("rb") as file:
            for data in file:
                row = json.loads(data)
                yield row["line"], row["custom_id"]


@dataclass(frozen=True, slots=True)
class Groups:
    groups: list[Group]
    refusals: list[Refusal]  #: of lines that cannot be answered, in their order


def sort_batch(batch: Path, directory: Path, max_tokens: int) -> Groups:
    """Sorted once: a second call finds the same files. Raises InputError, JobError, or TryAgain for a full disk."""
    manifest = directory / "groups.json"
    if not manifest.exists():
        groups, refusals = _sort(batch, directory, max_tokens)
        facts = {"groups": groups, "refusals": [asdict(refusal) for refusal in refusals]}
        with written(str(manifest)) as file:
            file.write(json.dumps(facts).encode())
    facts = json.loads(manifest.read_bytes())
    return Groups(
        [Group(directory / name, url, fields) for name, url, fields in facts["groups"]],
        [Refusal(**refusal) for refusal in facts["refusals"]],
    )


def digest(batch: Path, *facts: object) -> str:
    """sha256 over the file's bytes, and over what else its answers depend on. Raises InputError."""
    with reading(str(batch)), batch.open("rb") as file:
        found = hashlib.file_digest(file, "sha256")
    found.update(repr(facts).encode())
    return found.hexdigest()


def _sort(batch: Path, directory: Path, max_tokens: int) -> tuple[list[tuple[str, str, Fields]], list[Refusal]]:
    groups: dict[str, tuple[str, str, Fields]] = {}
    files: dict[str, BinaryIO] = {}
    refusals: list[Refusal] = []
    seen: dict[str, int] = {}
    with ExitStack() as opened:
        for request in _requests(batch, max_tokens):
            if isinstance(request, Request) and request.custom_id in seen:
                request = _repeated(request, seen[request.custom_id])
            if isinstance(request, Refusal):
                refusals.append(request)
                continue
            seen[request.custom_id] = request.line
            key = json.dumps([request.url, request.fields], sort_keys=True)
            if key not in groups:
                if len(groups) == _MOST_GROUPS:
                    raise InputError(
                        f"Up to line {request.line}, the lines of {batch} ask for answers in {len(groups)} different "
                        "ways, by url, system message and parameters. Split the file by these."
                    )
                groups[key] = (f"{len(groups) + 1:03}.jsonl", request.url, request.fields)
                files[key] = opened.enter_context(written(str(directory / groups[key][0])))
            row = {"line": request.line, "custom_id": request.custom_id, "content": request.content}
            files[key].write(json.dumps(row).encode() + b"\n")
    return list(groups.values()), refusals


def _requests(batch: Path, max_tokens: int) -> Iterator[Request | Refusal]:
    with reading(str(batch)), batch.open("rb") as file:
        if file.read(len(BOM_UTF8)) != BOM_UTF8:  # which some editors put first, and which is no part of a line
            file.seek(0)
        for line, data in enumerate(file, 1):
            if data.strip():
                yield read_request(data, line, max_tokens)


def _repeated(request: Request, first: int) -> Refusal:
    message = f"custom_id is that of line {first}, too. Give each line one of its own."
    return Refusal(request.line, request.custom_id, "duplicate_custom_id", message)
