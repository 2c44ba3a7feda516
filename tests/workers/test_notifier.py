"""Hooks that are told of ends: a real server on this machine, and real commands."""

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from pipeline.notify import Notify
from pipeline.settings import Settings
from pipeline.store.database import Database, open_database
from pipeline.store.ledger import Ledger
from pipeline.store.notices import Notices
from pipeline.store.records import JobRecord
from workers.notifier import Notifier


@dataclass
class Hook:
    """A webhook that answers with the statuses given, the last one for good, and what it was told."""

    statuses: list[int] = field(default_factory=lambda: [204])
    told: list[dict[str, object]] = field(default_factory=list)
    url: str = ""

    def answer(self, body: bytes) -> int:
        self.told.append(json.loads(body))
        return self.statuses.pop(0) if len(self.statuses) > 1 else self.statuses[0]


@pytest.fixture
def hook() -> Iterator[Hook]:
    hook = Hook()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            assert self.headers["Content-Type"] == "application/json"
            status = hook.answer(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(status)
            self.send_header("Location", hook.url)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    hook.url = f"http://127.0.0.1:{server.server_port}/hooks/T0P-S3CRET"
    yield hook
    server.shutdown()
    server.server_close()


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    database = open_database(Settings(database_url=f"sqlite:///{tmp_path / 'pipeline.db'}"))
    yield database
    database.dispose()


def ended_job(database: Database, name: str | None = "night", **notify: str) -> JobRecord:
    """Done, without a row."""
    spec = json.dumps({"prompt": "S3CRET of a row", "notify": Notify(**notify).model_dump()})
    job = Ledger(database).create_job(name, spec, "", "", "")
    Ledger(database).finish_cutting(job.id, 0)
    Ledger(database).complete(job.id)
    return job


def is_dead(pid: str) -> bool:
    """Gone, or a zombie that nobody has buried yet."""
    status = Path(f"/proc/{pid}/status")
    return not status.exists() or "State:\tZ" in status.read_text()


def send(database: Database, timeout_s: float = 10.0, **environment: str) -> list[str]:
    return list(Notifier(database, environment, timeout_s=timeout_s, pause=lambda seconds: None).send_due())


def test_a_webhook_is_told_what_is_documented_and_no_more(database, hook):
    job = ended_job(database, url=hook.url)
    assert send(database) == []
    (told,) = hook.told
    documented = (Path(__file__).parents[2] / "docs/nightly.md").read_text().partition("## Being told")[2]
    assert {name for name in told if f"`{name}`" in documented} == set(told)
    assert (told["event"], told["job"], told["job_id"], told["schedule"]) == ("done", "night", job.id, None)
    assert told["rows"] == {"total": 0, "ok": 0, "truncated": 0, "error": 0, "cancelled": 0, "copied": 0}
    assert "S3CRET" not in json.dumps(told)
    assert send(database) == []
    assert len(hook.told) == 1


def test_it_is_tried_three_times(database, hook):
    hook.statuses = [500, 503, 200]
    ended_job(database, url=hook.url)
    assert send(database) == []
    assert len(hook.told) == 3


@pytest.mark.parametrize(
    ("statuses", "why"), [([500], "It answered with status 500."), ([302], "It answered with status 302.")]
)
def test_what_fails_is_told_without_its_secret_and_fails_no_job(database, hook, statuses, why):
    hook.statuses = statuses
    job = ended_job(database, url=hook.url)
    (trouble,) = send(database)
    assert trouble.endswith(why)
    assert "S3CRET" not in trouble
    assert trouble.startswith("A POST to http://127.0.0.1:")
    assert len(hook.told) == 3
    assert Notices(database).unsent(job_id=job.id) == trouble
    assert send(database) == []


def test_a_url_of_the_environment_is_read_where_the_notice_is_sent(database, hook):
    ended_job(database, url_env="HOOK_URL")
    assert send(database, HOOK_URL=hook.url) == []
    assert len(hook.told) == 1


@pytest.mark.parametrize(
    ("environment", "why"),
    [
        ({}, "HOOK_URL is not set where the notice is sent from."),
        ({"HOOK_URL": "S3CRET"}, "What it names is no URL such as https://example.com/hook."),
        ({"HOOK_URL": "file:///S3CRET"}, "What it names is no URL such as https://example.com/hook."),
        ({"HOOK_URL": "http://127.0.0.1:1/S3CRET"}, "It cannot be reached: Connection refused."),
        ({"HOOK_URL": "http://127.0.0.1:1/S3 CRET"}, "It cannot be reached: InvalidURL."),
    ],
)
def test_a_url_that_leads_nowhere_is_told_without_it(database, environment, why):
    ended_job(database, url_env="HOOK_URL")
    assert send(database, **environment) == [f"A POST to the URL in HOOK_URL failed three times: {why}"]


def test_a_hook_that_was_taken_away_or_makes_no_sense_any_more_holds_up_no_other(database, hook):
    without = ended_job(database, url=hook.url)
    Ledger(database).restate(without.id, '{"notify": null}')
    odd = ended_job(database, None, url=hook.url)
    Ledger(database).restate(odd.id, '{"notify": {"pigeon": "S3CRET"}}')
    ended_job(database, None, url=hook.url)
    assert send(database) == [
        "The hook that was to be told was taken out of the job meanwhile.",
        "A notice met a fault of the program itself: ValidationError.",
    ]
    assert len(hook.told) == 1
    assert send(database) == []


@pytest.fixture(params=[b"HTTP/1.1 100 Continue\r\n\r\n", b""], ids=["says a little", "says nothing"])
def holding(request) -> Iterator[str]:
    """The URL of a server that comes to no end, whatever its client's sockets wait for."""
    over = threading.Event()

    def hold(server: socket.socket) -> None:
        held = []
        while not over.is_set():
            with suppress(TimeoutError):
                held.append(server.accept()[0])
            for connection in held:
                with suppress(OSError):
                    connection.sendall(request.param)

    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.02)
        thread = threading.Thread(target=hold, args=(server,))
        thread.start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}/"
        over.set()
        thread.join()


def test_a_webhook_has_one_deadline_whatever_it_says_in_between(database, holding):
    ended_job(database, url=holding)
    (trouble,) = send(database, timeout_s=0.1)
    assert trouble.endswith("/... failed three times: It took longer than 0.1 seconds.")


def test_a_command_reads_the_same(database, tmp_path):
    ended_job(database, command=f"cat > {tmp_path}/told.json; echo printed")
    assert send(database) == []
    assert json.loads((tmp_path / "told.json").read_text())["event"] == "done"


def test_a_command_that_fails_is_told(database):
    ended_job(database, command="exit 3")
    assert send(database) == ["The command `exit 3` failed three times: It ended with status 3."]


def test_a_command_that_hangs_is_ended_with_all_that_it_started(database, tmp_path):
    ended_job(database, command=f"sleep 60 & echo $! >> {tmp_path}/pids; wait")
    (trouble,) = send(database, timeout_s=0.2)
    assert trouble.endswith("It took longer than 0.2 seconds.")
    assert all(is_dead(pid) for pid in (tmp_path / "pids").read_text().split())


@pytest.mark.parametrize(
    ("notify", "why"),
    [
        ({}, "one of command, url and url_env"),
        ({"command": "true", "url": "https://example.com"}, "one of command, url and url_env"),
        ({"url": "example.com"}, "https://example.com/hook"),
        ({"url": "https://user:secret@example.com"}, "must not be kept"),
        ({"url": "https://token@example.com"}, "must not be kept"),
        ({"url_env": "https://example.com"}, "the name of an environment variable"),
    ],
)
def test_a_hook_that_makes_no_sense_is_refused(notify, why):
    with pytest.raises(ValueError, match=why):
        Notify(**notify)
