"""Serves a site over HTTP, by the standard library alone."""

import socket
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from jobs.pages.site import Site
from pipeline.errors import JobError

_HEADERS = {
    "Content-Type": "text/html; charset=utf-8",
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; img-src data:; frame-ancestors 'none'; "
    "base-uri 'none'; form-action 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}


class SiteServer(ThreadingHTTPServer):
    """Raises JobError where the address cannot be had."""

    def __init__(self, site: Site, host: str, port: int) -> None:
        self.site = site
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        try:
            super().__init__((host, port), _Handler)
        except OSError as error:
            raise JobError(f"{host} port {port} cannot be served on: {error.strerror}. Give another --port.") from error

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Browsers go away before the answer as they please."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    server: SiteServer
    #: Seconds after which one who says nothing is left.
    timeout = 30

    def do_GET(self) -> None:
        self._send(with_body=True)

    def do_HEAD(self) -> None:
        self._send(with_body=False)

    def version_string(self) -> str:
        return "pipeline"

    def log_message(self, *words: Any) -> None:
        """Nothing: an address may hold the token."""

    def _send(self, *, with_body: bool) -> None:
        answer = self.server.site.answer(self.path, dict(self.headers.items()))
        body = answer.body.encode()
        self.send_response(answer.status)
        for name, value in {**_HEADERS, **answer.headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        if with_body:
            self.wfile.write(body)
