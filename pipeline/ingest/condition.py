"""What `--where` says, such as `stars >= 4 and lang = 'en' and text is not null`: which rows of a batch fulfil it.

As in SQL, what is null fulfils no comparison, nor its opposite. Nothing is ever run that a person wrote.
"""

import re
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from pipeline.errors import InputError, SpecError
from pipeline.ingest.masks import Literal, Mask, any_of, bound, every_of, opposite
from pipeline.ingest.paths import ColumnPath, find_path

_TOKEN = re.compile(
    r"""\s*(?:(?P<number>[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?(?![\w.]))|(?P<text>'(?:[^']|'')*')"""
    r"""|(?P<quoted>"(?:[^"]|"")+")|(?P<sign><=|>=|<>|!=|==|[=<>(),])|(?P<word>[^\W\d]\w*(?:\.\w+)*))"""
)
_COMPARISONS = {
    "=": pc.equal, "==": pc.equal, "!=": pc.not_equal, "<>": pc.not_equal,
    "<": pc.less, "<=": pc.less_equal, ">": pc.greater, ">=": pc.greater_equal,
}  # fmt: skip
_KEYWORDS = frozenset({"and", "or", "not", "is", "in", "like", "null", "true", "false"})
_MOST_DIGITS = 37  #: what Arrow's decimals hold, less one
_DEEPEST = 50  #: parentheses within parentheses


@dataclass(frozen=True, slots=True)
class Condition:
    """Bound to the columns of one schema."""

    mask: Mask  #: true, false or null for each row

    @classmethod
    def parse(cls, text: str, schema: pa.Schema) -> "Condition":
        """Raises SpecError with the place of a fault, or InputError for a column that is not there."""
        return cls(_Parser(text, schema).whole())

    def fulfilled(self, batch: pa.RecordBatch) -> pa.Array:
        """True or false for each row. Raises InputError where a row's value cannot be compared."""
        try:
            return pc.fill_null(self.mask(batch), False)
        except pa.ArrowException as error:
            raise InputError(f"--where cannot be answered for some rows of the input: {error}.") from error


class _Parser:
    """By recursive descent: `or` binds least, then `and`, then `not`."""

    def __init__(self, text: str, schema: pa.Schema) -> None:
        self._text, self._schema = text, schema
        self._at = self._depth = 0
        self._nothing = pa.RecordBatch.from_pylist([], schema)
        self._kind, self._token = "", ""
        self._advance()

    def whole(self) -> Mask:
        mask = self._either()
        if self._kind:
            raise self._fault("and, or, or its end")
        return mask

    def _either(self) -> Mask:
        parts = [self._both()]
        while self._took("or"):
            parts.append(self._both())
        return any_of(parts)

    def _both(self) -> Mask:
        parts = [self._one()]
        while self._took("and"):
            parts.append(self._one())
        return every_of(parts)

    def _one(self) -> Mask:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise SpecError(f"--where is nested more than {_DEEPEST} deep. Write it more simply.")
        if self._took("not"):
            mask = opposite(self._one())
        elif self._took("("):
            mask = self._either()
            self._require(")")
        else:
            mask = self._comparison()
        self._depth -= 1
        return mask

    def _comparison(self) -> Mask:
        path = self._column()
        if self._took("is"):
            inverted = self._took("not")
            self._require("null")
            return (lambda batch: pc.is_valid(path.of(batch))) if inverted else lambda batch: pc.is_null(path.of(batch))
        if self._kind == "sign" and self._token in _COMPARISONS:
            return bound(self._nothing, path, _COMPARISONS[self._take()], self._literal())
        inverted = self._took("not")
        if self._took("in"):
            mask = self._among(path)
        elif self._took("like"):
            if self._kind != "text":
                raise self._fault("a text in single quotes, in which % stands for anything")
            pattern = self._literal()
            mask = bound(self._nothing, path, lambda column, like: pc.match_like(column, like.as_py()), pattern)
        elif pa.types.is_boolean(path.type) and not inverted:
            return path.of
        else:
            raise self._fault("one of = != < <= > >=, is, in or like")
        return opposite(mask) if inverted else mask

    def _among(self, path: ColumnPath) -> Mask:
        self._require("(")
        parts = [bound(self._nothing, path, pc.equal, self._literal())]
        while self._took(","):
            parts.append(bound(self._nothing, path, pc.equal, self._literal()))
        self._require(")")
        return any_of(parts)

    def _column(self) -> ColumnPath:
        if self._kind == "quoted":
            return find_path(self._schema, self._take()[1:-1].replace('""', '"'))
        if self._kind != "word" or self._token.lower() in _KEYWORDS:
            raise self._fault("a column's name (in double quotes where it is no plain word)")
        return find_path(self._schema, self._take())

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
