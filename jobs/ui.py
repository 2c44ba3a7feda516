"""`pipeline ui`: the reports of all jobs in a browser, as they are at each moment."""

import ipaddress
import re
import secrets

import click

from pipeline.errors import SpecError
from pipeline.settings import Settings
from pipeline.store.database import open_database

#: What a program may send as a token (RFC 6750), and a browser in an address.
_TOKEN = re.compile("[A-Za-z0-9._~+/-]+=*")


@click.command(short_help="Show all jobs in a browser.")
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to serve on.")
@click.option("--port", type=click.IntRange(0, 65_535), default=8800, show_default=True, help="0: any that is free.")
def ui(host: str, port: int) -> None:
    """Serve a page of all jobs, and the report of each, which follow what goes on until Ctrl-C. They only read, and
    show no text of a row.

    On any address but this machine's own they ask for a token: PIPELINE_UI_TOKEN, or else one that is made and shown at
    the start. It is sent as it is; let a web server with TLS stand before it where others may listen.

    \b
    Example:
      pipeline ui --port 8800
    """
    # The templates take a while to import, and no other command needs them.
    from jobs.pages.server import SiteServer
    from jobs.pages.site import Site

    settings = Settings.from_environment()
    token = settings.ui_token
    if token is not None and not _TOKEN.fullmatch(token):
        raise SpecError(
            "PIPELINE_UI_TOKEN must be of letters from A to Z, digits and - . _ ~ + /, and may end in =, since "
            "browsers and proxies change others. `openssl rand -hex 24` makes one."
        )
    made = None if token is not None or _is_local(host) else secrets.token_urlsafe(24)
    with SiteServer(Site(open_database(settings), settings, token or made), host, port) as server:
        click.echo(_told(host, server.server_address[1], given=token is not None, made=made))
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            click.echo("Ended. Jobs are not touched by that.", err=True)


def _told(host: str, port: int | str, *, given: bool, made: str | None) -> str:
    address = f"http://{f'[{host}]' if ':' in host else host}:{port}/"
    if given:
        return f"All jobs are at {address}?token= with PIPELINE_UI_TOKEN behind it. Ctrl-C ends this."
    return f"All jobs are at {address}{f'?token={made}' if made else ''}  Ctrl-C ends this."


def _is_local(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
