"""The pages of all jobs, by their addresses. It only reads, and shows no text of a row."""

import hashlib
import hmac
import math
import re
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from urllib.parse import unquote, urlsplit

from jobs.pages.page import jobs_page, message_page, report_page
from jobs.standing import State, all_standings, standing
from pipeline.errors import NotFoundError, PipelineError
from pipeline.settings import Settings
from pipeline.store.course import course
from pipeline.store.database import Database
from pipeline.store.queries import count_jobs
from pipeline.store.transactions import database_name

#: Seconds between two looks at what goes on, at least; and of the time, making pages takes one part in so many.
_LOOK_S, _PATIENCE = 5, 20
#: On the page of all, the newest.
_MOST_JOBS = 200
_COOKIE = "pipeline_token"
_LOCAL_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})
_LIVE = (State.CUTTING, State.RUNNING)


@dataclass(frozen=True, slots=True)
class Answer:
    """To one request."""

    status: HTTPStatus
    body: str
    headers: Mapping[str, str] = field(default_factory=dict)


class Site:
    """Without a token it answers those alone who call it by a local name: a page from elsewhere whose own name was made
    to lead here would call it by that name."""

    def __init__(self, database: Database, settings: Settings, token: str | None) -> None:
        self._database, self._settings, self._token = database, settings, token
        # One page at a time: each reads all results of a job.
        self._lock = threading.Lock()

    def answer(self, target: str, headers: Mapping[str, str]) -> Answer:
        """`target` is the path with its query; the names of `headers` are as they were sent."""
        path, _, query = target.partition("?")
        sent = {name.lower(): value for name, value in headers.items()}
        if self._token is None:
            if not _is_local(sent.get("host", "")):
                return _told(HTTPStatus.FORBIDDEN, "It answers only where it is called localhost.")
        elif _are_equal(_token_in(query), self._token):
            cookie = f"{_COOKIE}={_kept(self._token)}; HttpOnly; SameSite=Lax; Path=/"
            # Two slashes, of either kind, would lead to another site.
            here = re.sub(r"[/\\]+", "/", f"/{path}")
            return Answer(HTTPStatus.SEE_OTHER, "", {"Location": here, "Set-Cookie": cookie})
        elif not _knows(self._token, sent):
            told = "Add ?token= and the token to the address. It was shown where pipeline ui was started."
            return _told(HTTPStatus.UNAUTHORIZED, told)
        try:
            with self._lock:
                return self._page(path)
        except NotFoundError as error:
            return _told(HTTPStatus.NOT_FOUND, str(error))
        except PipelineError as error:
            return _told(HTTPStatus.SERVICE_UNAVAILABLE, str(error))

    def _page(self, path: str) -> Answer:
        began = time.monotonic()
        match path.split("/"):
            case ["", ""]:
                found = all_standings(self._database, self._settings, _MOST_JOBS)
                left_out = max(0, sum(count_jobs(self._database).values()) - len(found))
                refresh_s = _LOOK_S if any(each.state in _LIVE for each in found) else None
                return Answer(HTTPStatus.OK, jobs_page(found, left_out, database_name(self._database), refresh_s))
            case ["", "jobs", job_id]:
                job = standing(self._database, self._settings, job_id)
                went = course(self._database, job.job.id)
                pause_s = max(_LOOK_S, math.ceil(_PATIENCE * (time.monotonic() - began)))
                refresh_s = pause_s if job.state in _LIVE else None
                return Answer(HTTPStatus.OK, report_page(job, went, refresh_s=refresh_s, overview="/"))
        raise NotFoundError(f"There is no page {path}.")


def _is_local(host: str) -> bool:
    """By the name that a browser was told to go to."""
    try:
        return urlsplit(f"//{host}").hostname in _LOCAL_NAMES
    except ValueError:
        return False


def _knows(token: str, headers: Mapping[str, str]) -> bool:
    """As a program sends it, or as a browser keeps it."""
    kind, _, sent = headers.get("authorization", "").partition(" ")
    if kind.lower() == "bearer" and _are_equal(sent.strip(), token):
        return True
    return any(_are_equal(cookie, _kept(token)) for cookie in _cookies(headers.get("cookie", "")))


def _kept(token: str) -> str:
    """In a cookie: of letters that it may hold, and not the token itself."""
    return hashlib.sha256(token.encode()).hexdigest()


def _cookies(header: str) -> Iterator[str]:
    """Ours, whatever other applications of this host keep beside them: the standard library's reader drops all for one
    that it does not understand."""
    for part in header.split(";"):
        name, _, value = part.partition("=")
        if name.strip() == _COOKIE:
            yield value.strip()


def _token_in(query: str) -> str:
    """A plus is one, and no space, as a token may hold it."""
    given = (part.partition("=") for part in query.split("&"))
    return next((unquote(value) for name, _, value in given if name == "token"), "")


def _are_equal(text: str, secret: str) -> bool:
    return hmac.compare_digest(text.encode(), secret.encode())


def _told(status: HTTPStatus, message: str) -> Answer:
    return Answer(status, message_page(status.phrase, message))
