"""Tells a command or a webhook how a job ended, or a run of a schedule that came to no job. No row's text is told."""

import http.client
import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import asdict
from datetime import UTC, datetime
from urllib.error import HTTPError, URLError
from urllib.request import HTTPRedirectHandler, Request, build_opener

from pipeline.errors import NotFoundError, PipelineError
from pipeline.notify import Notify
from pipeline.store.database import Database
from pipeline.store.differences import count_differences, difference_of
from pipeline.store.lookup import read_job
from pipeline.store.notices import Notices
from pipeline.store.queries import progress
from pipeline.store.records import JobRecord, Progress
from pipeline.store.schedule_records import NoticeRecord, RunRecord, ScheduleRecord
from pipeline.store.schedules import Schedules

#: Seconds that a hook may take, those between two tries, and those after which another process sends it.
_TIMEOUT_S, _PAUSES_S, _LEASE_S = 10.0, (1.0, 4.0), 120.0
_KINDS = ("ok", "truncated", "error", "cancelled", "copied")


class _Unsent(Exception):  # noqa: N818 - it is counted, and told in the end
    """A try that failed; its text is a sentence."""


class Notifier:
    """`environment` holds the URLs that jobs name. Several senders at once send each notice once."""

    def __init__(
        self,
        database: Database,
        environment: Mapping[str, str],
        *,
        timeout_s: float = _TIMEOUT_S,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self._database, self._environment = database, environment
        self._timeout_s, self._pause = timeout_s, pause
        self._notices = Notices(database)

    def send_due(self, job_id: str | None = None) -> Iterator[str]:
        """Of one job, or of all; a sentence for each that could not be sent in three tries."""
        count_differences(self._database, job_id)
        while (notice := self._notices.claim(_LEASE_S, job_id)) is not None:
            try:
                trouble = self._send(notice)
            except PipelineError:  # the moment's, such as a database that is away
                raise
            except Exception as fault:  # one notice holds up no other; what the fault says may be secret
                trouble = f"A notice met a fault of the program itself: {type(fault).__name__}."
            self._notices.close(notice, trouble)
            if trouble is not None:
                yield trouble

    def _send(self, notice: NoticeRecord) -> str | None:
        try:
            job, run, schedule = self._subject(notice)
        except NotFoundError:
            return "What the notice was to tell of has been deleted."
        figures = None if job is None else progress(self._database, job.id)
        body = json.dumps(told(notice, job, run, schedule, figures), ensure_ascii=False).encode()
        spec_json = job.spec_json if job is not None else schedule.spec_json if schedule is not None else "{}"
        hook = json.loads(spec_json).get("notify")
        if hook is None:
            return "The hook that was to be told was taken out of the job meanwhile."
        notify = Notify.model_validate(hook)
        for pause_s in (*_PAUSES_S, None):
            try:
                self._tell(notify, body)
            except _Unsent as error:
                trouble = f"{notify.shown} failed three times: {error}"
            else:
                return None
            if pause_s is not None:
                self._pause(pause_s)
        return f"{trouble[:1].upper()}{trouble[1:]}"

    def _subject(self, notice: NoticeRecord) -> tuple[JobRecord | None, RunRecord | None, ScheduleRecord | None]:
        """Raises NotFoundError where it is gone."""
        run, schedule = Schedules(self._database).of(run_id=notice.run_id, job_id=notice.job_id)
        if notice.job_id is None and run is None:
            raise NotFoundError("There is no such run any more.")
        return None if notice.job_id is None else read_job(self._database, notice.job_id), run, schedule

    def _tell(self, notify: Notify, body: bytes) -> None:
        if notify.command is not None:
            _run(notify.command, body, self._timeout_s)
            return
        url = notify.url or self._environment.get(str(notify.url_env))
        if not url:
            raise _Unsent(f"{notify.url_env} is not set where the notice is sent from.")
        _post(url, body, self._timeout_s)


def told(
    notice: NoticeRecord,
    job: JobRecord | None,
    run: RunRecord | None,
    schedule: ScheduleRecord | None,
    figures: Progress | None,
) -> dict[str, object]:
    """What a hook reads. Times are ISO 8601 in UTC."""
    rows = figures and {"total": figures.total, **{kind: getattr(figures, kind) for kind in _KINDS}}
    difference = run and difference_of(run)
    return {
        "event": notice.event,
        "occurred_at": _iso(notice.occurred_at),
        "job": job and job.name,
        "job_id": job and job.id,
        "schedule": schedule and schedule.name,
        "scheduled_for": run and _iso(run.scheduled_for),
        "error": (job and job.error) or (run.note if run is not None and notice.run_id is not None else None),
        "rows": rows,
        "difference": difference and asdict(difference),
        "prompt_tokens": figures and {"computed": figures.computed_tokens, "reused": figures.reused_tokens},
        "output_tokens": figures and figures.output_tokens,
        "submitted_at": job and _iso(job.submitted_at),
    }


def _iso(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).isoformat(timespec="seconds")


def _run(command: str, body: bytes, timeout_s: float) -> None:
    """What it prints is nobody's: standard output is for answers."""
    nowhere = subprocess.DEVNULL
    with subprocess.Popen(
        ["/bin/sh", "-c", command], stdin=subprocess.PIPE, stdout=nowhere, stderr=nowhere, start_new_session=True
    ) as process:
        try:
            process.communicate(body + b"\n", timeout=timeout_s)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            raise _too_long(timeout_s) from None
    if process.returncode:
        raise _Unsent(f"It ended with status {process.returncode}.")


class _Nowhere(HTTPRedirectHandler):
    """A POST that is sent on becomes a GET, which tells nobody."""

    def redirect_request(self, *args: object) -> None:
        return None


def _post(url: str, body: bytes, timeout_s: float) -> None:
    """One deadline over all of it, since a server that says a little now and then is within every timeout of a socket.
    The thread that such a one holds is left to it."""
    answered = Future[None]()

    def send() -> None:
        try:
            _request(url, body, timeout_s)
        except BaseException as error:
            answered.set_exception(error)
        else:
            answered.set_result(None)

    threading.Thread(target=send, name="webhook", daemon=True).start()
    try:
        answered.result(timeout_s)
    except TimeoutError:
        raise _too_long(timeout_s) from None


def _request(url: str, body: bytes, timeout_s: float) -> None:
    """The URL is never part of an error: it may be a secret."""
    try:
        request = Request(url, body, {"Content-Type": "application/json"})  # noqa: S310 - only http and https are opened
        if request.type not in ("http", "https"):
            raise ValueError
        with build_opener(_Nowhere).open(request, timeout=timeout_s):
            pass
    except HTTPError as error:
        raise _Unsent(f"It answered with status {error.code}.") from None
    except ValueError:
        raise _Unsent("What it names is no URL such as https://example.com/hook.") from None
    except (URLError, http.client.HTTPException, OSError) as error:
        reason = error.reason if isinstance(error, URLError) else error
        if isinstance(reason, TimeoutError):
            raise _too_long(timeout_s) from None
        why = reason.strerror if isinstance(reason, OSError) and reason.strerror else type(reason).__name__
        raise _Unsent(f"It cannot be reached: {why}.") from None


def _too_long(timeout_s: float) -> _Unsent:
    return _Unsent(f"It took longer than {timeout_s:g} seconds.")
