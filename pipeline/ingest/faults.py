"""Faults of files in whole sentences: where stage 1 turns what the system or pyarrow raises into our errors."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa

from pipeline.errors import InputError, JobError, TryAgain

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
_FORBIDDEN = frozenset({errno.EROFS, errno.EACCES, errno.EPERM})


@contextmanager
def reading(name: str) -> Iterator[None]:
    """Around all that reads the input `name`; raises InputError."""
    try:
        yield
    except FileNotFoundError as error:
        raise InputError(f"{name} does not exist. Check the name, and the folder that you are in.") from error
    except OSError as error:
        if error.errno is None:
            raise _damaged(name, error) from error
        raise InputError(f"{name} cannot be read: {error.strerror or error}.") from error
    except UnicodeEncodeError as error:
        raise InputError(f"The file name {name!a} is not UTF-8 text. Rename the file.") from error
    except (pa.ArrowException, UnicodeDecodeError) as error:
        raise _damaged(name, error) from error


@contextmanager
def writing(directory: Path) -> Iterator[None]:
    """Around all that writes shards into `directory`; raises TryAgain for a full disk, else JobError."""
    try:
        yield
    except OSError as error:
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


def _damaged(name: str, error: Exception) -> InputError:
    reason = str(error).splitlines()[0].rstrip(". ") if str(error) else type(error).__name__
    return InputError(
        f"{name} cannot be read: {reason}. The file is incomplete, damaged or not what its extension says; "
        "copy it or write it again."
    )
