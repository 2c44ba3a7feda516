"""Stage 7: the file or stream that something is written to: whole, or not at all."""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from pipeline.errors import JobError, PipelineError, TryAgain


@contextmanager
def opened_target(target: Path | BinaryIO) -> Iterator[BinaryIO]:
    """A file appears whole or not at all, where a link leads to; what is no file is written as a stream.

    Raises JobError, or TryAgain for a full disk.
    """
    try:
        if not isinstance(target, Path):
            yield target
            target.flush()
        elif target.exists() and not target.is_file():
            with target.open("wb") as stream:  # a pipe or a device, which must not be renamed over
                yield stream
        else:
            with _replacing(target.resolve()) as stream:
                yield stream
    except BrokenPipeError:
        raise
    except OSError as error:
        raise _told(target, error) from error


def require_target(target: Path) -> None:
    """Before what takes hours. Raises JobError or TryAgain as `opened_target` would, and leaves nothing behind."""
    if target.exists() and not target.is_file():
        return  # a pipe would be read to its end
    temporary = _temporary(target.resolve())
    try:
        temporary.touch()
    except OSError as error:
        raise _told(target, error) from error
    temporary.unlink()


def _temporary(path: Path) -> Path:
    return path.with_name(f".{path.name}.{os.getpid()}.part")


@contextmanager
def _replacing(path: Path) -> Iterator[BinaryIO]:
    temporary = _temporary(path)
    try:
        with temporary.open("wb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def _told(target: Path | BinaryIO, error: OSError) -> PipelineError:
    name = target if isinstance(target, Path) else "The output"
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return TryAgain(
            f"{name} could not be written: the disk is full. Free some space, then give the same command again."
        )
    reason = error.strerror or str(error)
    return JobError(f"{name} cannot be written: {reason}. Give a file in a directory that you may write to.")
