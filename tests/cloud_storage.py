"""A Google Cloud Storage of one process: as much of its JSON API as a file system asks for, over objects in memory."""

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from workers.tether import tether

ROOT = Path(__file__).parents[1]
_OBJECT = re.compile(r"(?:/download)?/storage/v1/b/([^/]+)/o/(.+)")
_UPLOAD = "/upload/storage/v1/b/"


class CloudStorage(ThreadingHTTPServer):
    """`objects` are its files, by bucket and name."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Requests)
        self.objects: dict[str, bytes] = {}


class _Requests(BaseHTTPRequestHandler):
    server: CloudStorage
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        address = urlsplit(self.path)
        asked = parse_qs(address.query)
        found = _OBJECT.fullmatch(address.path)
        if found is None:
            bucket, prefix = address.path.split("/")[4], asked.get("prefix", [""])[0]
            names = sorted(name for name in self.server.objects if name.startswith(f"{bucket}/{prefix}"))
            self._reply(200, {"kind": "storage#objects", "items": [self._facts(name) for name in names]})
            return
        name = f"{found[1]}/{unquote(found[2])}"
        if name not in self.server.objects:
            self._reply(404, {"error": {"code": 404, "message": "there is none", "errors": []}})
        elif asked.get("alt") == ["media"]:
            self._send(name)
        else:
            self._reply(200, self._facts(name))

    def do_POST(self) -> None:
        """Begins an upload."""
        address = urlsplit(self.path)
        bucket, name = address.path.removeprefix(_UPLOAD).split("/")[0], parse_qs(address.query)["name"][0]
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self._reply(200, {}, Location=f"http://{self.headers['Host']}/uploads/{bucket}/{name}")

    def do_PUT(self) -> None:
        """Takes a part of an upload, which ends with the one that tells the size of the whole."""
        name = unquote(urlsplit(self.path).path.removeprefix("/uploads/"))
        sent = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        is_first = self.headers["Content-Range"].startswith(("bytes 0-", "bytes */0"))
        whole = (b"" if is_first else self.server.objects.get(f"{name}.part", b"")) + sent
        if self.headers["Content-Range"].endswith("/*"):
            self.server.objects[f"{name}.part"] = whole
            self._reply(308, {}, Range=f"bytes=0-{len(whole) - 1}")
            return
        self.server.objects.pop(f"{name}.part", None)
        self.server.objects[name] = whole
        self._reply(200, self._facts(name))

    def do_DELETE(self) -> None:
        found = _OBJECT.fullmatch(urlsplit(self.path).path)
        assert found is not None
        gone = self.server.objects.pop(f"{found[1]}/{unquote(found[2])}", None)
        self._reply(404 if gone is None else 204, {})

    def log_message(self, *told: object) -> None:
        """Nobody reads it."""

    def _facts(self, name: str) -> dict[str, Any]:
        bucket, _, within = name.partition("/")
        size = str(len(self.server.objects[name]))
        moment = "2026-01-01T00:00:00Z"
        return {
            "kind": "storage#object", "bucket": bucket, "name": within, "size": size, "generation": "1",
            "timeCreated": moment, "updated": moment,
        }  # fmt: skip

    def _send(self, name: str) -> None:
        whole = self.server.objects[name]
        asked = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", "bytes=0-"))
        assert asked is not None
        first, last = int(asked[1]), min(int(asked[2] or len(whole)), len(whole) - 1)
        self.send_response(206)
        self.send_header("Content-Range", f"bytes {first}-{last}/{len(whole)}")
        self.send_header("X-Goog-Generation", "1")
        self._end(whole[first : last + 1])

    def _reply(self, status: int, facts: dict[str, Any], **headers: str) -> None:
        self.send_response(status)
        for header, value in headers.items():
            self.send_header(header, value)
        self._end(json.dumps(facts).encode() if status != 204 else b"")

    def _end(self, body: bytes) -> None:
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@contextmanager
def cloud_storage() -> Iterator[Callable[[str], str]]:
    """Tells the URL of a bucket and what is in it. The server is a process of its own, as its clients hold Python's
    lock while they wait for it."""
    command = [sys.executable, "-m", "tests.cloud_storage"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT, preexec_fn=tether()) as server:
        assert server.stdout is not None
        port = int(server.stdout.readline())
        options = f"scheme=http&endpoint_override=127.0.0.1%3A{port}&retry_limit_seconds=5"
        try:
            yield lambda name: f"gs://anonymous@{name}?{options}"
        finally:
            server.kill()


if __name__ == "__main__":
    with CloudStorage() as storage:
        print(storage.server_port, flush=True)
        storage.serve_forever()
