"""The broker's URL as a person writes it, checked, and as each of the two libraries that use it reads it."""

from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import SplitResult, parse_qsl, quote, unquote, urlencode, urlsplit

from pipeline.errors import SpecError, TryAgain, nearest

_PORT = 6379
_SOCKETS = ("redis+socket", "unix")
_SCHEMES = ("redis", "rediss", *_SOCKETS)
_FILES = ("ssl_ca_certs", "ssl_certfile", "ssl_keyfile")
_OPTIONS = {
    "redis": (),
    "rediss": ("ssl_cert_reqs", "ssl_check_hostname", *_FILES),
    **dict.fromkeys(_SOCKETS, ("db", "virtual_host")),
}
_VALUES = {"ssl_cert_reqs": ("required", "optional", "none"), "ssl_check_hostname": ("true", "false")}


@dataclass(frozen=True, slots=True)
class Address:
    """The two URLs may hold a password; `name` does not, and stands in messages."""

    name: str
    kombu_url: str = field(repr=False)
    redis_url: str = field(repr=False)

    def unreachable(self, error: Exception) -> TryAgain:
        """What to raise where the broker failed."""
        return TryAgain(f"The broker at {self.name} cannot be used just now: {str(error).rstrip('.')}.")


def parse_address(url: str) -> Address:
    """Raises SpecError, in whose text no part of the URL stands that may be a password."""
    scheme = url.partition("://")[0] if "://" in url else ""
    if scheme not in _SCHEMES:
        begins = f"begins with {scheme}://" if scheme.isalnum() else "does not begin so"
        raise SpecError(
            f"The broker's URL, in PIPELINE_BROKER_URL, must begin with redis://, rediss:// or unix://; it {begins}."
        )
    try:
        parts = urlsplit(url)
        port = parts.port or _PORT
    except ValueError:
        raise SpecError(
            "The port in the broker's URL is no number. A password in it that has one of / ? # @ : must be written "
            "with %2F %3F %23 %40 %3A for these."
        ) from None
    options = _options(parts)
    if scheme in _SOCKETS:
        return _socket(parts, options)
    return _network(parts, port, options)


def _options(parts: SplitResult) -> dict[str, str]:
    options, known = dict(parse_qsl(parts.query)), _OPTIONS[parts.scheme]
    for name in options:
        if name not in known:
            hint = nearest(name, known)
            raise SpecError(f'The broker\'s URL has an option "{name}", which {parts.scheme}:// does not know.{hint}')
    for name in _VALUES.keys() & options.keys():
        options[name] = options[name].lower().removeprefix("cert_")
        if options[name] not in _VALUES[name]:
            raise SpecError(f"{name} in the broker's URL must be one of {', '.join(_VALUES[name])}.")
    for name in _FILES:
        if name in options and not Path(options[name]).is_file():
            raise SpecError(f"{name} in the broker's URL names {options[name]}, and there is no such file.")
    return options


def _socket(parts: SplitResult, options: dict[str, str]) -> Address:
    path = unquote(parts.path)
    if parts.hostname or not path.startswith("/") or path == "/":
        raise SpecError("The broker's URL must name a socket by its whole path, as in unix:///run/redis.sock")
    database = _database(options.get("db", options.get("virtual_host", "")))
    place = f"{_access(parts)}{quote(path)}"
    return Address(f"unix://{path}", f"redis+socket://{place}?virtual_host={database}", f"unix://{place}?db={database}")


def _network(parts: SplitResult, port: int, options: dict[str, str]) -> Address:
    if parts.scheme == "rediss":
        # Left to itself, kombu would not look at the server's certificate.
        options = {"ssl_cert_reqs": "required", **options}
    host = parts.hostname or "localhost"
    place = f"{f'[{host}]' if ':' in host else host}:{port}/{_database(parts.path.strip('/'))}"
    url = f"{parts.scheme}://{_access(parts)}{place}{f'?{urlencode(options)}' if options else ''}"
    return Address(f"{parts.scheme}://{place}", url, url)


def _access(parts: SplitResult) -> str:
    """Quoted anew, since kombu would take a semicolon in a password for the beginning of another URL."""
    if parts.username is None and parts.password is None:
        return ""
    name, password = (quote(unquote(part or ""), safe="") for part in (parts.username, parts.password))
    return f"{name}:{password}@" if password else f"{name}@"


def _database(text: str) -> int:
    if not text:
        return 0
    if not text.isdecimal():
        raise SpecError("The broker's URL must end with the number of a database, as in redis://localhost:6379/0")
    return int(text)
