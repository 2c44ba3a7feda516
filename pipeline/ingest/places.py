"""Where inputs, shards and tokens lie: a local path, or the URL of a file system that all machines of a fleet see.

A URL is whatever pyarrow can open: `s3://bucket/folder`, `gs://...`, `abfs://...`, `hdfs://...`, `file:///...`. It may
end in `?region=...` and the like, but holds no secret, since it is kept in the database and told in errors: credentials
come from the environment of each process, as their makers say.
"""

import hashlib
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import BytesIO
from pathlib import Path
from typing import BinaryIO
from urllib.parse import parse_qs, urlsplit

import pyarrow as pa
from pyarrow import fs

from pipeline.errors import SpecError
from pipeline.ingest.faults import reading, reading_own, writing

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")
_SECRET = re.compile("secret|password|token|key|^sig$", re.IGNORECASE)
_BUFFER_BYTES = 1 << 20  #: asked for at once, of what comes over a network
#: There, folders are nothing but the beginnings of names.
_WITHOUT_FOLDERS = frozenset({"s3", "gcs", "abfs"})


def is_url(place: str) -> bool:
    return _URL.match(place) is not None


def local_path(place: str) -> Path | None:
    """None for the URL of another machine's. Raises SpecError for one that makes no sense, or holds a secret."""
    if not is_url(place):
        return Path(place)
    try:
        parts = urlsplit(place)
    except ValueError as error:
        raise SpecError(
            f"The {place.partition('://')[0]}:// URL is no place that files can lie at: {error}."
        ) from error
    if parts.password or any(_SECRET.search(name) for name in parse_qs(parts.query)):
        raise SpecError(
            f"The URL {parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path} holds a secret, which would be "
            "kept in the database. Leave it out, and give it by the environment, such as AWS_SECRET_ACCESS_KEY."
        )
    return Path(_remote(place)[1]) if parts.scheme == "file" else None


def join(place: str, *names: str) -> str:
    """What has these names, one below the other, in a folder at a path or a URL."""
    if not is_url(place):
        return str(Path(place, *names))
    head, mark, options = place.partition("?")
    return "/".join([head.rstrip("/"), *names]) + mark + options


def open_file(place: str) -> pa.NativeFile:
    """For random access. Raises whatever pyarrow does: `opened` puts it into sentences."""
    path = local_path(place)
    if path is not None:
        return pa.OSFile(str(path))
    filesystem, name = _remote(place)
    return filesystem.open_input_file(name)


def open_stream(place: str, compression: str | None) -> pa.NativeFile:
    """To be read from its start on, unpacked. Raises whatever pyarrow does."""
    path = local_path(place)
    if path is not None:
        return pa.input_stream(str(path), compression=compression)
    filesystem, name = _remote(place)
    return filesystem.open_input_stream(name, compression=compression, buffer_size=_BUFFER_BYTES)


@contextmanager
def opened(place: str) -> Iterator[pa.NativeFile]:
    """The same around all that is read of the file. Raises InputError, or TryAgain where it cannot be reached."""
    with reading(place), open_file(place) as file:
        yield file


@contextmanager
def written(place: str) -> Iterator[BinaryIO]:
    """At the place there is the whole file or nothing, whenever this is killed; folders above it are made.

    Raises TryAgain for a full disk or where it cannot be reached, else JobError.
    """
    path = local_path(place)
    folder = place.partition("?")[0].rpartition("/")[0] if path is None else path.parent
    with writing(folder), _uploaded(place) if path is None else _replacing(path) as file:
        yield file


def exists(place: str) -> bool:
    """Whether there is a file or a folder. Raises TryAgain where that cannot be told just now."""
    path = local_path(place)
    if path is not None:
        return path.exists()
    with reading(place):
        filesystem, name = _remote(place)
        return bool(filesystem.get_file_info(name).type != fs.FileType.NotFound)


def is_folder(place: str) -> bool:
    """Raises TryAgain where that cannot be told just now."""
    path = local_path(place)
    if path is not None:
        return path.is_dir()
    with reading(place):
        filesystem, name = _remote(place)
        return bool(filesystem.get_file_info(name).type == fs.FileType.Directory)


def files_below(url: str) -> list[str]:
    """What is in a folder that is not on this machine, and in those in it: names relative to it, in their order."""
    with reading(url):
        filesystem, folder = _remote(url)
        found = filesystem.get_file_info(fs.FileSelector(folder, recursive=True, allow_not_found=True))
    return sorted(info.path.removeprefix(folder).lstrip("/") for info in found if info.is_file)


def facts(place: str) -> tuple[str, int, int]:
    """What changes where a file does: its whole name, its bytes, and when it was written, in ns. Raises InputError."""
    path = local_path(place)
    with reading(place):
        if path is not None:
            status = path.stat()
            return str(path.resolve()), status.st_size, status.st_mtime_ns
        filesystem, name = _remote(place)
        info = filesystem.get_file_info(name)
        if info.type == fs.FileType.NotFound:
            raise FileNotFoundError(name)
        return place, info.size, info.mtime_ns


def delete(place: str) -> None:
    """A file, or a folder with all that is in it; nothing happens where there is neither."""
    path = local_path(place)
    with writing(place if path is None else path), suppress(FileNotFoundError):
        if path is None:
            _delete_remote(place)
        elif path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()


def deposit(directory: Path, place: str) -> None:
    """The files of a local folder, those below its folders left out, become a folder at the place."""
    for path in sorted(directory.iterdir()):
        if path.is_file():
            with written(join(place, path.name)) as file:
                file.write(path.read_bytes())


def fetched(place: str, directory: Path) -> Path:
    """A folder of a job's files as a local one: itself where it is one, otherwise copied once to below `directory`.

    Raises InputError or TryAgain.
    """
    path = local_path(place)
    if path is not None:
        with reading_own(place):
            path.stat()
        return path
    target = directory / hashlib.sha256(place.encode()).hexdigest()[:32]
    if not target.is_dir():
        with writing(directory):
            directory.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=directory) as unfinished:
                whole = _download(place, Path(unfinished, target.name))
                try:
                    whole.rename(target)
                except OSError:
                    if not target.is_dir():  # another process was not faster either
                        raise
    return target


def _download(place: str, directory: Path) -> Path:
    directory.mkdir()
    with reading_own(place):
        filesystem, name = _remote(place)
        for found in filesystem.get_file_info(fs.FileSelector(name)):
            if found.is_file:
                with filesystem.open_input_file(found.path) as file:
                    (directory / found.base_name).write_bytes(file.read())
    return directory


@contextmanager
def _replacing(path: Path) -> Iterator[BinaryIO]:
    temporary = path.with_name(f"{path.name}.tmp")
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with temporary.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    _sync_directory(path.parent)


def _sync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def _uploaded(place: str) -> Iterator[BinaryIO]:
    """In one piece: a stream to a store that is left halfway puts there what it has."""
    filesystem, name = _remote(place)
    whole = BytesIO()
    yield whole
    if filesystem.type_name not in _WITHOUT_FOLDERS:
        filesystem.create_dir(name.rpartition("/")[0], recursive=True)
    with filesystem.open_output_stream(name, compression=None) as stream:
        stream.write(whole.getbuffer())


def _delete_remote(place: str) -> None:
    filesystem, name = _remote(place)
    if filesystem.get_file_info(name).type == fs.FileType.Directory:
        filesystem.delete_dir(name)
    else:
        filesystem.delete_file(name)


def _remote(place: str) -> tuple[fs.FileSystem, str]:
    try:
        found: tuple[fs.FileSystem, str] = fs.FileSystem.from_uri(place)
        return found
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise SpecError(f"{place} is no place that files can lie at: {error}.") from error
