"""What a database says about itself, told to a person: the moment's fault (TryAgain) or the job's (JobError)."""

import re
import sqlite3

from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError

from pipeline.errors import JobError, PipelineError, SpecError, TryAgain

#: A class and a sentence, in which {database} and {detail} are filled in.
Fault = tuple[type[PipelineError], str]

LOCKED: Fault = (
    TryAgain,
    "The database {database} is locked by another process. Nothing was changed; try again when that one is done.",
)
FULL: Fault = (TryAgain, "The disk that holds the database {database} is full. Free some space and try again.")
UNREADABLE: Fault = (
    TryAgain,
    "The database {database} could not be read or written ({detail}). Look whether its disk is full or gone, "
    "and try again.",
)
DAMAGED: Fault = (
    JobError,
    "The database {database} is damaged ({detail}). Put a backup in its place, or move it away and submit again.",
)
AWAY: Fault = (TryAgain, "The database {database} did not answer as it should: {detail}. Try again when it is up.")
CROWDED: Fault = (
    TryAgain,
    "The database {database} has no connection left ({detail}). Try again, end processes that are not needed, or let "
    "the server take more connections.",
)
COLLIDED: Fault = (
    TryAgain,
    "Another process changed the same entries of the database {database}. Nothing was changed; try again.",
)
STOOD_STILL: Fault = (
    TryAgain,
    "The database {database} did not wait for this process, which stood still. Nothing was changed; try again.",
)
CLOSED: Fault = (
    JobError,
    "The database {database} does not let this program in: {detail}. Correct the user and the password in "
    "PIPELINE_DATABASE_URL, or what the server allows.",
)

#: By the first two words of sqlite3's error name.
SQLITE_FAULTS: dict[str, Fault] = {
    "SQLITE_BUSY": LOCKED,
    "SQLITE_FULL": FULL,
    "SQLITE_IOERR": UNREADABLE,
    "SQLITE_READONLY": (
        JobError,
        "The database {database} cannot be written to. Make the file and its directory writable, or set "
        "PIPELINE_DATABASE_URL to another place.",
    ),
    "SQLITE_CANTOPEN": (
        JobError,
        "The database {database} cannot be opened. Look whether it is a file in a directory that you may write to, "
        "or set PIPELINE_DATABASE_URL to another place.",
    ),
    "SQLITE_NOTADB": (
        JobError,
        "{database} is not a database. Move the file away, or set PIPELINE_DATABASE_URL to another place.",
    ),
    "SQLITE_CORRUPT": DAMAGED,
}

#: By SQLSTATE, or its first two characters, which name a class of them.
POSTGRESQL_FAULTS: dict[str, Fault] = {
    "08": AWAY,
    "25006": (
        JobError,
        "The database {database} takes no changes, as a server that only copies another. Name the one that takes them "
        "in PIPELINE_DATABASE_URL.",
    ),
    "25P03": STOOD_STILL,
    "28": CLOSED,
    "2BP01": (
        JobError,
        "The database {database} has views of somebody's own that stand on those of this program: {detail}. Drop them, "
        "and make them again afterwards.",
    ),
    "40": COLLIDED,
    "42501": (
        JobError,
        "The database {database} lets this user do too little: {detail}. Grant it that, or name another user in "
        "PIPELINE_DATABASE_URL.",
    ),
    "53": AWAY,
    "53100": FULL,
    "53300": CROWDED,
    "55P03": LOCKED,
    "57": AWAY,
    "58": UNREADABLE,
    "XX001": DAMAGED,
    "XX002": DAMAGED,
}

#: Who is refused a connection is told no SQLSTATE, but words.
REFUSALS: dict[str, Fault] = {
    r'database ".*" does not exist': (
        JobError,
        "There is no database {database}. Create it (CREATE DATABASE), or correct PIPELINE_DATABASE_URL.",
    ),
    r"^(connection is bad: )?invalid ": (
        SpecError,
        "PIPELINE_DATABASE_URL says what PostgreSQL does not know: {detail}. Correct it.",
    ),
    r"too many |connection slots": CROWDED,
    r"failed to resolve host|could not translate host name": (
        TryAgain,
        "The host of the database {database} is not known here: {detail}. Correct PIPELINE_DATABASE_URL; if the name "
        "is right, try again when the network is.",
    ),
    r"password|role \"|pg_hba.conf|permission denied|certificate|not currently accepting|server does not support SSL": (
        CLOSED
    ),
}


def told(error: DBAPIError, database: str) -> PipelineError | None:
    """None for what is no fault of the database but a mistake of ours."""
    if isinstance(error.orig, sqlite3.Error):
        detail = str(error.orig).strip()
        name = "_".join(getattr(error.orig, "sqlite_errorname", "").split("_")[:2])
        fault = SQLITE_FAULTS.get(name)
    else:
        detail = _detail(error)
        fault = _postgresql_fault(error, detail)
    if fault is None:
        return None
    kind, sentence = fault
    return kind(sentence.format(database=database, detail=detail))


def _postgresql_fault(error: DBAPIError, detail: str) -> Fault | None:
    state: str = getattr(error.orig, "sqlstate", None) or ""
    if state:
        return POSTGRESQL_FAULTS.get(state, POSTGRESQL_FAULTS.get(state[:2]))
    for words, fault in REFUSALS.items():
        if re.search(words, detail):
            return fault
    return AWAY if isinstance(error, OperationalError | InterfaceError) else None


def _detail(error: DBAPIError) -> str:
    """Less the part of the statement, and the questions, that PostgreSQL adds on lines of their own."""
    first, *more = str(error.orig).strip().splitlines() or [""]
    return " ".join([first, *(line.strip() for line in more if line.startswith("- "))])
