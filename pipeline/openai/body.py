"""A request's body as JSON has it: each reader takes what it knows out of it, and what is left is not supported."""

from typing import Any

from pipeline.errors import RowError

Body = dict[str, Any]
Fields = dict[str, Any]  #: of a JobSpec


def as_object(value: object, what: str) -> Body:
    """Raises RowError for what is none."""
    if not isinstance(value, dict):
        raise RowError("invalid_request", f"{what} must be an object.")
    return value


def unsupported(name: str) -> RowError:
    """For what would change the answer, or might."""
    return RowError("unsupported_parameter", f"{name} is not supported. Leave it out.")
