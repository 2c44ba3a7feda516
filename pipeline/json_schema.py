"""A whole answer against the JSON schema that it was written to: what no grammar holds, such as `oneOf`, is held here.

The door to jsonschema. Numbers are as they are written, in answers and in schemas: 0.3 is a multiple of 0.1.
"""

import json
import math
import re
from decimal import Decimal
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError, best_match
from jsonschema.validators import validator_for
from referencing.exceptions import Unresolvable

#: Of half a pair of surrogates, which no text may hold by itself.
_HALF = re.compile("[\ud800-\udfff]")
_LONGEST_REASON = 300


class AnswerSchema:
    """Of the draft that its `$schema` names, or of 2020-12."""

    def __init__(self, text: str) -> None:
        schema = json.loads(text, parse_float=Decimal)
        self._validator = validator_for(schema, default=Draft202012Validator)(schema)

    def fault(self) -> str | None:
        """What makes it no schema."""
        try:
            self._validator.check_schema(self._validator.schema)
        except SchemaError as error:
            return _short(f"{_place(error.json_path)}{error.message}")
        return None

    def parsed(self, answer: str) -> str:
        """As JSON, always spelled alike. Raises ValueError with the reason where it is not of the schema."""
        try:
            value = json.loads(answer, parse_float=_finite)
            text = json.dumps(value, ensure_ascii=False)
            self._require(json.loads(answer, parse_float=Decimal))
        except RecursionError as error:
            raise ValueError("it has more lists and objects within each other than readers take") from error
        return json.dumps(value) if _HALF.search(text) else text

    def _require(self, value: object) -> None:
        error: Any
        try:
            error = best_match(self._validator.iter_errors(value))
        except (re.error, ArithmeticError, Unresolvable):  # what jsonschema cannot tell; llguidance, which held it, can
            return
        if error is not None:
            raise ValueError(_short(f"{_place(error.json_path)}{error.message}"))


def _finite(digits: str) -> float:
    if not math.isfinite(number := float(digits)):
        raise ValueError(f"its number {digits} is larger than readers take")
    return number


def _place(path: str) -> str:
    return "" if path == "$" else f"at {path}: "


def _short(reason: str) -> str:
    return reason if len(reason) <= _LONGEST_REASON else f"{reason[: _LONGEST_REASON - 1]}…"
