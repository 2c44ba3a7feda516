import shutil
import socket
import socketserver
import ssl
import subprocess
import threading
from contextlib import suppress

import pytest

from pipeline.errors import TryAgain
from workers.broker.doorbell import Doorbell

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="makes a certificate with openssl")


class Unwrapping(socketserver.BaseRequestHandler):
    """What comes in by TLS goes on to the server's socket, as a proxy before a Redis does it."""

    def handle(self):
        with suppress(OSError), self.server.context.wrap_socket(self.request, server_side=True) as outside:
            inside = socket.socket(socket.AF_UNIX)
            inside.connect(self.server.path)
            back = threading.Thread(target=pump, args=(inside, outside), daemon=True)
            back.start()
            pump(outside, inside)
            inside.close()
            back.join(1)


def pump(source, target):
    with suppress(OSError):
        while data := source.recv(1 << 16):
            target.sendall(data)


@pytest.fixture
def certificate(tmp_path):
    """One for localhost that signs itself, and its key."""
    files = tmp_path / "certificate.pem", tmp_path / "key.pem"
    kind = ["-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]
    names = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    command = ["openssl", "req", *kind, *names, "-out", files[0], "-keyout", files[1]]
    subprocess.run(command, check=True, capture_output=True)
    return files


@pytest.fixture
def place(server, certificate):
    """Host and port at which the server answers by TLS."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Unwrapping) as proxy:
        proxy.daemon_threads, proxy.context, proxy.path = True, context, server.url.partition("://")[2]
        threading.Thread(target=proxy.serve_forever, daemon=True).start()
        yield f"localhost:{proxy.server_address[1]}"
        proxy.shutdown()


def use(url):
    bell = Doorbell(url)
    bell.ring_shard("night", 0)
    return bell.depth()["tokenizer"]


def test_a_certificate_that_nobody_vouches_for_is_refused_by_both_libraries(place):
    bell = Doorbell(f"rediss://{place}")
    for look in (bell.depth, lambda: bell.ring_shard("night", 0)):
        with pytest.raises(TryAgain, match="CERTIFICATE_VERIFY_FAILED"):
            look()


def test_a_certificate_that_the_url_names_is_trusted(place, certificate):
    assert use(f"rediss://{place}?ssl_ca_certs={certificate[0]}") == 1


def test_a_certificate_of_another_host_is_refused(place, certificate):
    with pytest.raises(TryAgain, match="CERTIFICATE_VERIFY_FAILED"):
        use(f"rediss://{place.replace('localhost', '127.0.0.1')}?ssl_ca_certs={certificate[0]}")


def test_whoever_asks_for_it_gets_no_check(place):
    assert use(f"rediss://{place}?ssl_cert_reqs=none") == 1
