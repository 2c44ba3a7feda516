"""The field of a job that says who is told of its end: a command, or a webhook. Imports nothing of ours."""

import re
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator


def _as_webhook(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("a webhook is a URL such as https://example.com/hook")
    if "@" in parts.netloc:
        raise ValueError(
            "the URL of the webhook holds a user or a password before its host, which must not be kept, and is never "
            "sent; leave it out, and give url_env where the URL is secret"
        )
    return url


def _as_variable(name: str) -> str:
    if not re.fullmatch("[A-Za-z_][A-Za-z0-9_]*", name):
        raise ValueError("url_env is the name of an environment variable, such as HOOK_URL, and not the URL itself")
    return name


class Notify(BaseModel):
    """One of these; the other two are None."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    command: Annotated[str, Field(min_length=1)] | None = None  #: for a shell
    url: Annotated[str, AfterValidator(_as_webhook)] | None = None
    url_env: Annotated[str, AfterValidator(_as_variable)] | None = None  #: the variable that holds the URL

    @model_validator(mode="after")
    def _is_one(self) -> "Notify":
        if sum(way is not None for way in (self.command, self.url, self.url_env)) != 1:
            raise ValueError("it is one of command, url and url_env")
        return self

    @property
    def shown(self) -> str:
        """Without what may be secret: of a URL, all behind its host."""
        if self.url is not None:
            parts = urlsplit(self.url)
            return f"a POST to {parts.scheme}://{parts.netloc.rpartition('@')[2]}/..."
        return f"a POST to the URL in {self.url_env}" if self.url_env is not None else f"the command `{self.command}`"
