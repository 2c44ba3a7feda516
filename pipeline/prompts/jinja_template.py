"""Stage 2, first step: a prompt that is a jinja template over the row's columns, as `--prompt @FILE.j2` gives it."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from types import TracebackType

import jinja2
from jinja2 import meta, nodes

from pipeline.errors import RowError, SpecError
from pipeline.prompts.budget import Budget
from pipeline.prompts.content import Content, hidden
from pipeline.prompts.nested import json_like
from pipeline.prompts.pricing import NotAllowedError, bounded
from pipeline.prompts.sandbox import BUDGET, Sandbox
from pipeline.prompts.template import Field, Given, Literal, Segment, Template
from pipeline.rows import Row

#: The one thing beside columns that a template may show: when the job was submitted, as text.
_SUBMITTED_AT = "submitted_at"
#: What a row makes of all between the template's first and its last own text.
_MIDDLE = "the middle"
_FILE = "<template>"


@dataclass(frozen=True, slots=True)
class JinjaTemplate:
    """All texts and lists of a row are its values, never templates themselves."""

    columns: tuple[str, ...]
    before: str  #: its own text before anything of a row
    within: tuple[str, ...]  #: its own texts between the two
    after: str  #: and behind all of it
    shown: jinja2.Template
    hidden: jinja2.Template  #: the same with its own texts unreadable
    submitted_at: str = ""

    @classmethod
    def parse(cls, source: str) -> "JinjaTemplate":
        """Raises SpecError with the line of a fault."""
        sandbox = Sandbox()
        try:
            tree = bounded(sandbox.parse(source, filename=_FILE))
            names = meta.find_undeclared_variables(tree) - sandbox.globals.keys() - {_SUBMITTED_AT}
            order = [name.name for name in tree.find_all(nodes.Name)]
            shown = _compiled(sandbox, tree)
            own = list(tree.find_all(nodes.TemplateData))
            first, last = _edge(tree, 0), _edge(tree, -1)
            before, after = first.data if first else "", last.data if last and last is not first else ""
            within = tuple(text.data for text in own if text is not first and text is not last)
            for text in own:
                text.data = hidden(text.data)
            columns = tuple(sorted(names, key=order.index))
            return cls(columns, before, within, after, shown, _compiled(sandbox, tree))
        except (NotAllowedError, jinja2.TemplateSyntaxError) as error:
            raise SpecError(f"The prompt's template cannot be used: line {error.lineno}: {_said(error)}.") from error
        except Exception as error:  # Python itself may refuse what jinja makes of it
            raise SpecError(f"The prompt's template cannot be used: {type(error).__name__}: {error}.") from error

    @property
    def segments(self) -> tuple[Segment, ...]:
        """What stands in the middle is as the row has it, the template's own texts there included."""
        parts = (Literal(self.before), Field(_MIDDLE), Literal(self.after))
        return tuple(part for part in parts if part != Literal(""))

    def values(self, row: Row) -> Given:
        return {column: json_like(column, row.values.get(column)) for column in self.columns}

    def texts(self, given: Given) -> Mapping[str, str]:
        """Raises RowError."""
        return {_MIDDLE: self._rendered(self.shown, given).removeprefix(self.before).removesuffix(self.after)}

    def content(self, given: Given) -> Content:
        """What is the template's own comes out unreadable where its texts are so. Raises RowError."""
        text, other = self._rendered(self.shown, given), self._rendered(self.hidden, given)
        if len(text) != len(other):
            return Content(text)
        own = (one if one != two else three for one, two, three in zip(text, other, hidden(text), strict=True))
        return Content(text, "".join(own))

    def marked(self, mark: str) -> str:
        return self.before + mark + self.after

    def times(self, column: str) -> int:
        """It may be any number."""
        return 1

    def at(self, submitted_at: datetime) -> "JinjaTemplate | Template":
        """Raises SpecError where it takes no columns, and fails."""
        placed = replace(self, submitted_at=submitted_at.isoformat(timespec="seconds"))
        if self.columns:
            return placed
        try:
            return Template((Literal(placed.content({}).text),))
        except RowError as error:
            raise SpecError(str(error)) from error

    def _rendered(self, template: jinja2.Template, given: Given) -> str:
        try:
            return template.render({**given, _SUBMITTED_AT: self.submitted_at, BUDGET: Budget()})
        except Exception as error:  # a template can raise whatever Python can
            raise RowError(
                "template", f"The prompt's template fails in this row{_line(error.__traceback__)}: {_said(error)}."
            ) from error


def _compiled(sandbox: Sandbox, tree: nodes.Template) -> jinja2.Template:
    code = sandbox.compile(tree, filename=_FILE)
    return jinja2.Template.from_code(sandbox, code, sandbox.make_globals(None))


def _edge(tree: nodes.Template, end: int) -> nodes.TemplateData | None:
    """Its own text that comes first of all that it writes, or last."""
    writes = [node for node in tree.body if not isinstance(node, nodes.Assign | nodes.AssignBlock)]
    output = writes[end] if writes else None
    if not isinstance(output, nodes.Output):
        return None
    part = output.nodes[end]
    return part if isinstance(part, nodes.TemplateData) else None


def _said(error: Exception) -> str:
    message = error.message if isinstance(error, jinja2.TemplateError) else str(error)
    return (message or type(error).__name__).rstrip(".")


def _line(traceback: TracebackType | None) -> str:
    """The last of the template's own that the error came through."""
    found = ""
    while traceback is not None:
        if traceback.tb_frame.f_code.co_filename == _FILE:
            found = f", line {traceback.tb_lineno}"
        traceback = traceback.tb_next
    return found
