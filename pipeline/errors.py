"""The error tree. The class says whose fault it is, and so who acts.

PipelineError
├── RowError            the row's fault: recorded as that row's result, the job goes on
├── JobError            the job's fault: said to the person, nothing is retried
│   ├── SpecError         what was asked for makes no sense
│   ├── InputError        a file, a column or a row of the input cannot be read
│   │   └── NoRows          or it has none: a night of a schedule on which there is nothing to do
│   ├── ModelError        the model or its tokenizer cannot be used
│   ├── NotFoundError     no such job
│   └── RefusedError      done as asked, this would lose or mix up results
└── TryAgain            the moment's fault: a locked database, a full disk; the same command works later
    └── DeviceLost        and no other attempt of this process can succeed: only a new one may use the device
"""

import difflib
from collections.abc import Sequence


class PipelineError(Exception):
    """Base of every error that speaks to a person; its text is one or more whole sentences."""


class RowError(PipelineError):
    """This row cannot be answered. `error_type` is a stable word to filter by, such as `too_long`."""

    def __init__(self, error_type: str, message: str) -> None:
        super().__init__(message)
        self.error_type = error_type


class JobError(PipelineError):
    """The job cannot go on as it was asked for."""


class SpecError(JobError):
    """The job as asked for makes no sense."""


class InputError(JobError):
    """The input cannot be read; the message names the file, and the column or row where it is known."""


class NoRows(InputError):  # noqa: N818 - to a schedule it is no error
    """The input has no rows, or none of those asked for, so there is nothing to answer."""


class ModelError(JobError):
    """The model or its tokenizer cannot be loaded or is of a kind that cannot be answered exactly."""


class NotFoundError(JobError):
    """There is no such job."""


class RefusedError(JobError):
    """What was asked for would lose or mix up results."""


class TryAgain(PipelineError):  # noqa: N818 - the name is the advice
    """Nothing is wrong with the job: the disk, the database or another process is in the way just now."""


class DeviceLost(TryAgain):
    """The device failed in a way that leaves this process unable to use it; what it was at counts as its death."""


def nearest(name: str, known: Sequence[str]) -> str:
    """` Did you mean "text"?`, or nothing where no name is near: the last sentence of many an error."""
    found = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    return f' Did you mean "{found[0]}"?' if found else ""
