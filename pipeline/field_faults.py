"""What is wrong with a job's fields, told to a person in a sentence."""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import Any

from pipeline.errors import nearest

NO_SOURCE = (
    "--sql needs the URL of one database; give --from, such as sqlite:///FILE or postgresql://user@host/database"
)


#: What is wanted, by what pydantic finds missing.
_KINDS = {
    "tuple_type": "a list",
    "dict_type": "an object",
    "model_type": "an object",
    "string_type": "text",
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
}


#: What has no flag of its name.
_WITHOUT_FLAG = {"inputs": "INPUT", "messages": "messages", "questions": "questions", "notify": "notify"}


def sentence(fault: Any, known: Sequence[str]) -> str:
    """`fault` is one of a ValidationError, `known` are the fields that a job has."""
    field = ".".join(str(part) for part in fault["loc"])
    if "." in field and fault["type"] in ("extra_forbidden", "missing"):
        return f"{field}: {'there is no such field' if fault['type'] == 'extra_forbidden' else 'it is missing'}."
    if fault["type"] == "extra_forbidden":
        return f'There is no field "{field}" in a job.{nearest(field, known)}'
    if fault["type"] == "missing":
        if field == "inputs" and fault["input"].get("sql") is not None:
            return f"{NO_SOURCE}."
        flag = "INPUT" if field == "inputs" else f"--{field}"
        return f"The job has no {field}; give {flag}, or `{field}:` in the job file."
    if fault["type"] == "string_type" and isinstance(fault["input"], bool | int | float):
        return _unquoted(field, fault["input"])
    if (bound := _bound(fault)) is not None:
        of_list, _, place = field.rpartition(".")
        if of_list in known and place.isdigit() and fault["type"] == "string_too_short":
            return f"{_named(of_list)} holds an empty text. Take it out."
        return f"{_named(field) if field in known else field} {bound}."
    message = str(fault["msg"]).removeprefix("Value error, ")
    end = "" if message.endswith(("?", ".")) else "."
    return f"{field}: {message}{end}" if field else f"{message[:1].upper()}{message[1:]}{end}"


def _named(field: str) -> str:
    return _WITHOUT_FLAG.get(field, f"--{field.replace('_', '-')}")


def text_faults(fields: Mapping[str, Any]) -> list[str]:
    """Of texts, wherever they stand, that a database cannot keep; PostgreSQL reads no JSON that has a NUL in it."""
    return list(dict.fromkeys(fault for name, value in fields.items() for fault in _text_faults(value, name)))


def _text_faults(value: object, place: str) -> Iterator[str]:
    match value:
        case str() | PurePath():
            if "\0" in (text := str(value)):
                yield f"{place} holds a NUL character, which no database keeps. Take it out."
            if any("\ud800" <= character <= "\udfff" for character in text):
                yield f"{place} holds half of a surrogate pair, which is no text. Take it out."
        case Mapping():
            for name, each in value.items():
                yield from _text_faults(str(name), place)
                yield from _text_faults(each, f"{place}.{name}")
        case list() | tuple():
            for each in value:
                yield from _text_faults(each, place)


def _bound(fault: Any) -> str | None:
    """What a value must be that is of the right kind, and what it is."""
    match fault["type"]:
        case "greater_than_equal":
            must = f"must be {fault['ctx']['ge']:g} or more"
        case "less_than_equal":
            must = f"must be {fault['ctx']['le']:g} or less"
        case "greater_than":
            must = f"must be more than {fault['ctx']['gt']:g}"
        case "literal_error":
            must = f"must be {fault['ctx']['expected']}"
        case "string_too_short":
            return "must not be empty"
        case kind if kind in _KINDS:
            return f"must be {_KINDS[kind]}, and not {_shown(fault['input'])}"
        case _:
            return None
    return f"{must}, and not {fault['input']!r}" if isinstance(fault["input"], str | int | float) else must


def _shown(value: object) -> str:
    match value:
        case None:
            return "null"
        case Mapping():
            return "an object"
        case list() | tuple():
            return "a list"
        case _:
            return repr(value)


def _unquoted(field: str, value: bool | int | float) -> str:
    meant = {True: "yes", False: "no"}[value] if isinstance(value, bool) else value
    return (
        f"{field}: without quotes, YAML reads this as {json.dumps(value)}, which is no text; "
        f'write it in quotes, such as "{meant}".'
    )
