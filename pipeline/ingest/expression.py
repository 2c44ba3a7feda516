"""The language of `--where`, such as `stars >= 4 and lang = 'en' and text is not null`, whatever it is asked of.

It is a part of SQL: columns are compared with values, and there are no functions and no arithmetic. As in all of it,
what is null fulfils no comparison, nor its opposite. Nothing is ever run, or pasted into a statement, that a person
wrote: what its parts mean is said by a Meaning.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Generic, Protocol, TypeVar

from pipeline.errors import SpecError

Literal = str | int | float | bool
Column = TypeVar("Column")
Part = TypeVar("Part")

_TOKEN = re.compile(
    r"""\s*(?:(?P<number>[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?(?![\w.]))|(?P<text>'(?:[^']|'')*')"""
    r"""|(?P<quoted>"(?:[^"]|"")+")|(?P<sign><=|>=|<>|!=|==|[=<>(),])|(?P<word>[^\W\d]\w*(?:\.\w+)*))"""
)
_LIKE = re.compile(r"\\([%_\\])|(.)", re.DOTALL)
#: As they are written, and what stands for it in a Meaning.
_SIGNS = {"=": "=", "==": "=", "!=": "!=", "<>": "!=", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
_KEYWORDS = frozenset({"and", "or", "not", "is", "in", "like", "between", "null", "true", "false"})
_MOST_DIGITS = 37  #: what Arrow's decimals hold, less one
_DEEPEST = 50  #: parentheses within parentheses


class Meaning(Protocol[Column, Part]):
    """What a condition is made into. Each method may raise SpecError or InputError."""

    def column(self, name: str) -> Column: ...
    def is_true(self, column: Column) -> Part | None:
        """None for a column that is not one of truths."""

    def is_null(self, column: Column) -> Part: ...
    def compare(self, column: Column, sign: str, value: Literal) -> Part:
        """`sign` is one of = != < <= > >=."""

    def like(self, column: Column, pattern: str) -> Part:
        """As like_as() reads it; case counts."""

    def opposite(self, part: Part) -> Part: ...
    def any_of(self, parts: Sequence[Part]) -> Part: ...
    def every_of(self, parts: Sequence[Part]) -> Part: ...


def like_as(pattern: str, wild: Mapping[str, str], escaped: Callable[[str], str]) -> str:
    """A pattern in another language. % stands for any text, and _ for any character; behind a backslash both, and
    itself, for themselves."""
    return "".join(
        escaped(taken) if taken else wild.get(sign) or escaped(sign) for taken, sign in _LIKE.findall(pattern)
    )


def read(text: str, meaning: Meaning[Column, Part]) -> Part:
    """Raises SpecError with the place of a fault before any column is looked for, and what the meaning raises."""
    columns_of(text)
    return Expression(text, meaning).whole()


def columns_of(text: str) -> list[str]:
    """The names that it asks of, each once. Raises SpecError where it cannot be read."""
    names = _Names()
    Expression(text, names).whole()
    return list(names.found)


class Expression(Generic[Column, Part]):
    """By recursive descent: `or` binds least, then `and`, then `not`."""

    def __init__(self, text: str, meaning: Meaning[Column, Part]) -> None:
        self._text, self._meaning = text, meaning
        self._at = self._depth = 0
        self._kind, self._token = "", ""
        self._advance()

    def whole(self) -> Part:
        """Raises SpecError with the place of a fault."""
        part = self._either()
        if self._kind:
            raise self._fault("and, or, or its end")
        return part

    def _either(self) -> Part:
        parts = [self._both()]
        while self._took("or"):
            parts.append(self._both())
        return self._meaning.any_of(parts)

    def _both(self) -> Part:
        parts = [self._one()]
        while self._took("and"):
            parts.append(self._one())
        return self._meaning.every_of(parts)

    def _one(self) -> Part:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise SpecError(f"--where is nested more than {_DEEPEST} deep. Write it more simply.")
        if self._took("not"):
            part = self._meaning.opposite(self._one())
        elif self._took("("):
            part = self._either()
            self._require(")")
        else:
            part = self._comparison()
        self._depth -= 1
        return part

    def _comparison(self) -> Part:
        column = self._column()
        if self._took("is"):
            inverted = self._took("not")
            self._require("null")
            part = self._meaning.is_null(column)
            return self._meaning.opposite(part) if inverted else part
        if self._kind == "sign" and self._token in _SIGNS:
            return self._meaning.compare(column, _SIGNS[self._take()], self._literal())
        inverted = self._took("not")
        if self._took("in"):
            part = self._among(column)
        elif self._took("like"):
            if self._kind != "text":
                raise self._fault("a text in single quotes, in which % stands for anything")
            part = self._meaning.like(column, str(self._literal()))
        elif self._took("between"):
            part = self._within(column)
        elif not inverted and (truth := self._meaning.is_true(column)) is not None:
            return truth
        else:
            raise self._fault("one of = != < <= > >=, is, in, like or between")
        return self._meaning.opposite(part) if inverted else part

    def _among(self, column: Column) -> Part:
        self._require("(")
        parts = [self._meaning.compare(column, "=", self._literal())]
        while self._took(","):
            parts.append(self._meaning.compare(column, "=", self._literal()))
        self._require(")")
        return self._meaning.any_of(parts)

    def _within(self, column: Column) -> Part:
        least = self._meaning.compare(column, ">=", self._literal())
        self._require("and")
        return self._meaning.every_of([least, self._meaning.compare(column, "<=", self._literal())])

    def _column(self) -> Column:
        if self._kind == "quoted":
            return self._meaning.column(self._take()[1:-1].replace('""', '"'))
        if self._kind != "word" or self._token.lower() in _KEYWORDS:
            raise self._fault("a column's name (in double quotes where it is no plain word)")
        return self._meaning.column(self._take())

    def _literal(self) -> Literal:
        if self._kind == "text":
            return self._take()[1:-1].replace("''", "'")
        if self._kind == "number":
            token = self._take()
            if re.fullmatch(r"[+-]?\d+", token) is None:
                return float(token)
            if len(token.lstrip("+-")) > _MOST_DIGITS:
                raise SpecError(
                    f"--where compares whole numbers of up to {_MOST_DIGITS} digits, and {token[:9]}... has more. "
                    "Write it in single quotes where the column is text, otherwise as 1e40."
                )
            return int(token)
        for word, value in (("true", True), ("false", False)):
            if self._took(word):
                return value
        raise self._fault("a number, a text in single quotes, true or false")

    def _took(self, token: str) -> bool:
        found = self._kind in ("word", "sign") and self._token.lower() == token
        if found:
            self._advance()
        return found

    def _require(self, token: str) -> None:
        if not self._took(token):
            raise self._fault(token)

    def _take(self) -> str:
        token = self._token
        self._advance()
        return token

    def _advance(self) -> None:
        found = _TOKEN.match(self._text, self._at)
        rest = self._text[self._at :].lstrip()
        if found is None and rest:
            self._token = rest[0]
            self._at = len(self._text) - len(rest) + 1
            raise self._fault(
                "a quote that is closed" if rest[0] in "'\"" else "a column, a value or one of = < > ( ) ,"
            )
        self._kind, self._token = (found.lastgroup or "", found[found.lastgroup or 0]) if found else ("", "")
        self._at = found.end() if found else len(self._text)

    def _fault(self, wanted: str) -> SpecError:
        place = f"at character {self._at - len(self._token) + 1} ({self._token})" if self._token else "at its end"
        return SpecError(f"--where cannot be read {place}: there should be {wanted}.")


class _Names:
    """What is asked of, and nothing of what is asked."""

    def __init__(self) -> None:
        self.found: dict[str, None] = {}

    def column(self, name: str) -> None:
        self.found[name] = None

    def is_true(self, column: None) -> bool:
        return True

    def is_null(self, column: None) -> bool:
        return True

    def compare(self, column: None, sign: str, value: Literal) -> bool:
        return True

    def like(self, column: None, pattern: str) -> bool:
        return True

    def opposite(self, part: bool) -> bool:
        return True

    def any_of(self, parts: Sequence[bool]) -> bool:
        return True

    def every_of(self, parts: Sequence[bool]) -> bool:
        return True
