"""Lines of JSON without what does not fit into their columns of text, so that the others can be read as ever."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from pipeline.ingest.strange import is_torn


@dataclass(frozen=True, slots=True)
class Mended:
    """`lines` as they were, but for those in `strange`: by their places, whole values of columns that do not fit."""

    lines: Sequence[bytes]
    strange: Mapping[int, Mapping[str, object]]


def mended(lines: Sequence[bytes], schema: pa.Schema | None) -> Mended:
    """Without a schema, the first value of each place says whether it is one of texts."""
    shape = _shape_of(pa.struct(list(schema))) if schema is not None else _Shape("object")
    put, strange = list(lines), {}
    for place, line in enumerate(lines):
        row = _object(line)
        fitting = {name: shape.at(name).fitting(value) for name, value in row.items()}
        if fitting != row:
            strange[place] = {name: value for name, value in row.items() if fitting[name] != value}
            put[place] = json.dumps(fitting).encode()
    return Mended(put, strange)


@dataclass(slots=True)
class _Shape:
    """Of what stands at one place in the rows."""

    kind: str | None = None  #: None: only nulls so far
    parts: "dict[str, _Shape]" = field(default_factory=dict)

    def at(self, name: str) -> "_Shape":
        return self.parts.setdefault(name, _Shape())

    def fitting(self, value: object) -> object:
        """With null for what is no text, where texts stand."""
        if value is None:
            return None
        kind = _KINDS.get(type(value), "other")
        self.kind = self.kind or kind
        if self.kind == "text":
            return value if isinstance(value, str) and not is_torn(value) else None
        if self.kind == kind and isinstance(value, list):
            return [self.at("").fitting(part) for part in value]
        if self.kind == kind and isinstance(value, dict):
            return {name: self.at(name).fitting(part) for name, part in value.items()}
        return value


_KINDS: Mapping[type, str] = {str: "text", list: "list", dict: "object"}


def _shape_of(kind: pa.DataType) -> _Shape:
    if pa.types.is_struct(kind):
        return _Shape("object", {each.name: _shape_of(each.type) for each in kind})
    if pa.types.is_list(kind):
        return _Shape("list", {"": _shape_of(kind.value_type)})
    return _Shape("text" if pa.types.is_string(kind) else "other")


def _object(line: bytes) -> dict[str, object]:
    """Empty for a line that is none, of which others tell."""
    try:
        row = json.loads(line.decode(errors="surrogateescape"))
    except ValueError:
        return {}
    return row if isinstance(row, dict) else {}
