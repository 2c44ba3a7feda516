"""A batch file sorted into groups of lines that one job can answer, each an input like any other."""

import hashlib
import json
import os
from codecs import BOM_UTF8
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import BinaryIO

from filelock import FileLock

from pipeline.errors import InputError
from pipeline.ingest.faults import reading, writing
from pipeline.ingest.places import written
from pipeline.openai.endpoints import CONTENT, Terms, Usual
from pipeline.openai.requests import Refusal, Request, read_request
from pipeline.openai.sorted_batches import MANIFEST

#: Each is a job of its own, which loads the model anew.
_MOST_GROUPS = 100
#: Of what a sorted batch's files hold, and of what is made of a line; to be raised with every change of these, so that
#: files of before are not taken for those of now.
_VERSION = 3


@dataclass(frozen=True, slots=True)
class Group:
    """`rows` is a JSON Lines file, with a line for each prompt: its key, line and custom_id, and the content."""

    rows: Path
    terms: Terms

    def requests(self) -> Iterator[tuple[int, str, int]]:
        """(line, custom_id, prompts) of each."""
        with self.rows.open("rb") as file:
            for (line, custom_id), prompts in groupby(map(json.loads, file), itemgetter("line", "custom_id")):
                yield line, custom_id, sum(1 for _ in prompts)


@dataclass(frozen=True, slots=True)
class Groups:
    groups: list[Group]
    refusals: list[Refusal]  #: of lines that cannot be answered, in their order


def sort_batch(batch: Path, directory: Path, usual: Usual) -> Groups:
    """Sorted once, also by two at once: a second call finds the same files.

    Raises InputError, JobError, or TryAgain for a full disk.
    """
    manifest = directory / MANIFEST
    with writing(directory):
        directory.mkdir(parents=True, exist_ok=True)
        with FileLock(directory / "sorting.lock"):
            if not manifest.exists():
                _write(manifest, *_sort(batch, directory, usual))
            os.utime(manifest)
    facts = json.loads(manifest.read_bytes())
    return Groups(
        [Group(directory / name, Terms(**terms)) for name, terms in facts["groups"]],
        [Refusal(**refusal) for refusal in facts["refusals"]],
    )


def _write(manifest: Path, groups: list[tuple[str, Terms]], refusals: list[Refusal]) -> None:
    facts = {
        "groups": [(name, asdict(terms)) for name, terms in groups],
        "refusals": [asdict(refusal) for refusal in refusals],
    }
    with written(str(manifest)) as file:
        file.write(json.dumps(facts).encode())


def digest(batch: Path, *facts: object) -> str:
    """sha256 over the file's bytes, over what else its answers depend on, and over how it is sorted into files.

    Raises InputError.
    """
    with reading(str(batch)), batch.open("rb") as file:
        found = hashlib.file_digest(file, "sha256")
    found.update(repr((_VERSION, *facts)).encode())
    return found.hexdigest()


def _sort(batch: Path, directory: Path, usual: Usual) -> tuple[list[tuple[str, Terms]], list[Refusal]]:
    groups: dict[str, tuple[str, Terms]] = {}
    files: dict[str, BinaryIO] = {}
    refusals: list[Refusal] = []
    seen: dict[str, int] = {}
    with ExitStack() as opened:
        for request in _requests(batch, usual):
            if isinstance(request, Request) and request.custom_id in seen:
                request = _repeated(request, seen[request.custom_id])
            if isinstance(request, Refusal):
                refusals.append(request)
                continue
            seen[request.custom_id] = request.line
            if (key := request.terms.key) not in groups:
                _require_room(batch, request.line, len(groups))
                groups[key] = (f"{len(groups) + 1:03}.jsonl", request.terms)
                files[key] = opened.enter_context(written(str(directory / groups[key][0])))
            files[key].writelines(_rows(request))
    for name, _ in groups.values():
        # The same lines, sorted once more after a purge, are the same input, which is known by its time, too.
        os.utime(directory / name, (0, 0))
    return list(groups.values()), refusals


def _require_room(batch: Path, line: int, groups: int) -> None:
    if groups == _MOST_GROUPS:
        raise InputError(
            f"Up to line {line}, the lines of {batch} ask for answers in {groups} different ways, by url and "
            "parameters. Split the file by these."
        )


def _rows(request: Request) -> Iterator[bytes]:
    for number, prompt in enumerate(request.prompts):
        row = {"key": f"{request.line}.{number}", "line": request.line, "custom_id": request.custom_id, CONTENT: prompt}
        yield json.dumps(row).encode() + b"\n"


def _requests(batch: Path, usual: Usual) -> Iterator[Request | Refusal]:
    with reading(str(batch)), batch.open("rb") as file:
        if file.read(len(BOM_UTF8)) != BOM_UTF8:  # which some editors put first, and which is no part of a line
            file.seek(0)
        for line, data in enumerate(file, 1):
            if data.strip():
                yield read_request(data, line, usual)


def _repeated(request: Request, first: int) -> Refusal:
    message = f"custom_id is that of line {first}, too. Give each line one of its own."
    return Refusal(request.line, request.custom_id, "duplicate_custom_id", message)
