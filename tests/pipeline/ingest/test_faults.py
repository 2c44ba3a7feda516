import errno
import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from pipeline.errors import InputError, JobError, TryAgain
from pipeline.ingest.faults import reading, writing

Around = Callable[[str], AbstractContextManager[None]]


def system_error(number: int) -> OSError:
    return OSError(number, os.strerror(number))


@pytest.mark.parametrize(
    ("number", "kind", "sentence"),
    [
        (errno.ENOSPC, TryAgain, "The disk is full: shards cannot be written to home (No space left on device)."),
        (errno.EDQUOT, TryAgain, "The disk is full: shards cannot be written to home (Disk quota exceeded)."),
        (errno.EROFS, JobError, "Shards cannot be written to home: Read-only file system. Set PIPELINE_HOME"),
        (errno.EACCES, JobError, "Shards cannot be written to home: Permission denied. Set PIPELINE_HOME"),
        (errno.EIO, JobError, "Shards cannot be written to home: Input/output error."),
    ],
)
def test_faults_of_writing(number: int, kind: type[Exception], sentence: str) -> None:
    with pytest.raises(kind) as caught, writing(Path("home")):
        raise system_error(number)
    assert str(caught.value).startswith(sentence)


@pytest.mark.parametrize(
    ("number", "sentence"),
    [
        (errno.EACCES, "a.csv cannot be read: Permission denied."),
        (errno.EIO, "a.csv cannot be read: Input/output error."),
        (errno.ENOENT, "a.csv does not exist. Check the name, and the folder that you are in."),
    ],
)
def test_faults_of_reading(number: int, sentence: str) -> None:
    with pytest.raises(InputError) as caught, reading("a.csv"):
        raise system_error(number)
    assert str(caught.value) == sentence


def test_our_own_errors_pass() -> None:
    with pytest.raises(InputError, match=r"^as it is$"), reading("a.csv"), writing(Path("home")):
        raise InputError("as it is")


AWAY = "When reading information for key 'x' in bucket 'b': AWS Error NETWORK_CONNECTION during HeadObject operation"
DENIED = "When reading information for key 'x' in bucket 'b': AWS Error ACCESS_DENIED during HeadObject operation"
NO_BUCKET = "AWS Error NO_SUCH_BUCKET during CreateMultipartUpload operation: The specified bucket does not exist"
GOOGLE = "google::cloud::Status(UNAVAILABLE: Retry policy exhausted)"


@pytest.mark.parametrize("around", [reading, writing])
@pytest.mark.parametrize(
    ("text", "kind", "sentence"),
    [
        (AWAY, TryAgain, f"s3://b/x cannot be reached just now: {AWAY}."),
        (GOOGLE, TryAgain, f"s3://b/x cannot be reached just now: {GOOGLE}."),
        (DENIED, InputError, f"s3://b/x cannot be used: {DENIED}. Check that it is there, and that this machine has"),
        (NO_BUCKET, InputError, f"s3://b/x cannot be used: {NO_BUCKET}. Check that it is there"),
    ],
)
def test_faults_of_an_object_store(around: Around, text: str, kind: type[Exception], sentence: str) -> None:
    with pytest.raises(kind) as caught, around("s3://b/x"):
        raise OSError(text)
    assert str(caught.value).startswith(sentence)
