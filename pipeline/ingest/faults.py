"""Faults of files in whole sentences: where stage 1 turns what the system or pyarrow raises into our errors."""

import errno
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa

from pipeline.errors import InputError, JobError, TryAgain

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
_FORBIDDEN = frozenset({errno.EROFS, errno.EACCES, errno.EPERM})
#: Errors of object stores have no number, but they say whose they are. All are of the moment, but for the refusals.
_OF_A_STORE = re.compile("AWS Error|google::cloud|Azure Error|HDFS|libjvm")
_REFUSAL = re.compile(
    "ACCESS_DENIED|INVALID_ACCESS_KEY_ID|INVALID_CLIENT_TOKEN_ID|SIGNATURE_DOES_NOT_MATCH|NO_SUCH_BUCKET|"
    "PERMISSION_DENIED|UNAUTHENTICATED|NOT_FOUND|HTTP status 40[134]|[Aa]uth(entication|orization)|ContainerNotFound|"
    "libjvm"
)


@contextmanager
def reading(name: str) -> Iterator[None]:
    """Around all that reads the input `name`; raises InputError, or TryAgain where its store cannot be reached."""
    try:
        yield
    except FileNotFoundError as error:
        raise InputError(f"{name} does not exist. Check the name, and the folder that you are in.") from error
    except OSError as error:
        _of_a_store(name, error)
        if error.errno is None:
            raise _damaged(name, error) from error
        raise InputError(f"{name} cannot be read: {error.strerror or error}.") from error
    except UnicodeEncodeError as error:
        raise InputError(f"The file name {name!a} is not UTF-8 text. Rename the file.") from error
    except (pa.ArrowException, UnicodeDecodeError) as error:
        raise _damaged(name, error) from error


@contextmanager
def reading_own(name: str) -> Iterator[None]:
    """The same around what was written for a job when its input was cut, maybe on another machine."""
    try:
        with reading(name):
            yield
    except InputError as error:
        if isinstance(error.__cause__, FileNotFoundError):
            raise InputError(
                f"{name}, which `pipeline submit` wrote, does not exist on this machine. If it was moved, put it back. "
                "If this machine never saw it, PIPELINE_SHARDS must name a directory or bucket that all machines of "
                "the fleet see, wherever they or `submit` run: set it, and submit the job under another name."
            ) from error
        raise


@contextmanager
def writing(directory: Path | str) -> Iterator[None]:
    """Around all that writes shards into `directory`; raises TryAgain for a full disk, else JobError."""
    try:
        yield
    except OSError as error:
        _of_a_store(str(directory), error)
        reason = error.strerror or str(error)
        if error.errno in _FULL:
            raise TryAgain(
                f"The disk is full: shards cannot be written to {directory} ({reason}). "
                "Free some space, then give the same command again."
            ) from error
        if error.errno in _FORBIDDEN:
            raise JobError(
                f"Shards cannot be written to {directory}: {reason}. "
                "Set PIPELINE_HOME to a folder that you may write to."
            ) from error
        raise JobError(f"Shards cannot be written to {directory}: {reason}.") from error


def _of_a_store(name: str, error: OSError) -> None:
    """Raises InputError or TryAgain where an object store is the one that complains."""
    if error.errno is not None or not _OF_A_STORE.search(str(error)):
        return
    if _REFUSAL.search(str(error)):
        raise InputError(
            f"{name} cannot be used: {_first_line(error)}. "
            "Check that it is there, and that this machine has credentials for it."
        ) from error
    raise TryAgain(f"{name} cannot be reached just now: {_first_line(error)}.") from error


def _damaged(name: str, error: Exception) -> InputError:
    return InputError(
        f"{name} cannot be read: {_first_line(error)}. The file is incomplete, damaged or not what its extension says; "
        "copy it or write it again."
    )


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0].rstrip(". ") if str(error) else type(error).__name__
