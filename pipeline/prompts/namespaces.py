"""Stage 2: what a jinja template may make for itself, without a way from there to Python's insides."""

from typing import Any

from jinja2.exceptions import SecurityError
from jinja2.utils import Namespace


class TemplateDict:
    """`dict(...)` without the attributes of the class."""

    def __call__(self, *args: Any, **fields: Any) -> dict[Any, Any]:
        return dict(*args, **fields)

    def fromkeys(self, *args: Any) -> dict[Any, Any]:
        return dict.fromkeys(*args)


class TemplateNamespace(Namespace):
    """A namespace without underscore names, which lead to Python's insides."""

    def __init__(*args: Any, **fields: Any) -> None:
        self, given = args[0], dict(*args[1:], **fields)
        for name in given:
            _check_name(name)
        Namespace.__init__(self, given)

    def __setitem__(self, name: str, value: Any) -> None:
        _check_name(name)
        super().__setitem__(name, value)


def _check_name(name: object) -> None:
    if isinstance(name, str) and name.startswith("_"):
        raise SecurityError(f"a namespace cannot hold the underscore name {name!r}")
