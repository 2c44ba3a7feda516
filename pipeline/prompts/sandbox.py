"""Stage 2: where a prompt's own jinja template runs: with what is named here and nothing else, and within a budget."""

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from jinja2 import StrictUndefined, Undefined, pass_context
from jinja2.exceptions import SecurityError
from jinja2.ext import loopcontrols
from jinja2.runtime import Context, LoopContext
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace

from pipeline.prompts.budget import Budget, size
from pipeline.prompts.namespaces import TemplateNamespace
from pipeline.prompts.prices import COMPARISONS, price_of_comparison, price_of_test, whole
from pipeline.prompts.pricing import COMPARED, JOINED, OF_DICTS, PRICED, READ, TURNS, WHOLE

#: A name that no template can write.
BUDGET = "the budget"
_FILTERS = (
    *("abs", "count", "d", "default", "dictsort", "first", "float", "groupby", "int", "items", "last"),
    *("length", "list", "map", "max", "min", "reject", "rejectattr", "reverse", "select", "selectattr"),
    *("sort", "unique"),
)
_TEXT_FILTERS = ("capitalize", "lower", "string", "striptags", "title", "trim", "upper", "wordcount")
_TEXT_METHODS = (
    *("capitalize", "casefold", "count", "endswith", "find", "index", "isalnum", "isalpha"),
    *("isdecimal", "isdigit", "islower", "isnumeric", "isspace", "istitle", "isupper", "lower"),
    *("lstrip", "partition", "removeprefix", "removesuffix", "replace", "rfind", "rindex"),
    *("rpartition", "rsplit", "rstrip", "split", "splitlines", "startswith", "strip", "swapcase"),
    *("title", "upper"),
)
_LOOP = (
    *("index", "index0", "revindex", "revindex0", "first", "last", "length", "depth", "depth0"),
    *("previtem", "nextitem", "cycle", "changed"),
)
#: Tests that look at the environment.
_OF_JINJA = ("filter", "test")
_METHODS: tuple[tuple[type, tuple[str, ...]], ...] = (
    (str, _TEXT_METHODS),
    (dict, OF_DICTS),
    (list, ("count", "index")),
    (LoopContext, _LOOP),
)
#: What a piece of JSON counts for, beside its characters.
_PIECE = 50


class Sandbox(ImmutableSandboxedEnvironment):
    """Raises whatever Python can, and TooMuchError; SecurityError for what may not be done."""

    intercepted_binops = frozenset(("+", "*", "**", "%"))

    def __init__(self) -> None:
        super().__init__(
            trim_blocks=True,
            lstrip_blocks=True,
            keep_trailing_newline=True,
            optimized=False,
            undefined=StrictUndefined,
            extensions=[loopcontrols],
            finalize=_written,
        )
        self.globals = {"range": self.globals["range"], "namespace": TemplateNamespace}
        own = {PRICED: _priced, WHOLE: _priced_whole, COMPARED: _compared, TURNS: _turns, JOINED: _joined_up}
        usual = self.filters
        self.filters = {name: usual[name] for name in _FILTERS} | own
        self.filters |= {name: _of_text(usual[name]) for name in _TEXT_FILTERS}
        self.filters |= {"join": _join, "replace": _replace, "round": _round, "sum": _sum, "tojson": _to_json}
        self.tests = {name: _priced_test(name, test) for name, test in self.tests.items() if name not in _OF_JINJA}

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        if isinstance(obj, Namespace):
            return not attr.startswith("_")
        return any(isinstance(obj, kind) and attr in names for kind, names in _METHODS)

    def getattr(self, obj: Any, attribute: str) -> Any:
        """A field wins over a method of its name, unless that is called."""
        name = attribute.removesuffix(READ)
        if isinstance(obj, dict) and name in obj and (name != attribute or name not in OF_DICTS):
            return obj[name]
        return super().getattr(obj, name)

    def wrap_str_format(self, value: Any) -> None:
        """There is no str.format here."""

    def call(__self, __context: Context, __obj: Any, *args: Any, **named: Any) -> Any:  # noqa: N805 - as in jinja
        budget = _budget(__context)
        of, name = getattr(__obj, "__self__", None), getattr(__obj, "__name__", "")
        budget.spend(size(of))
        budget.spend(sum(whole(arg) for arg in args if isinstance(arg, list | tuple | dict)))
        if isinstance(of, list | tuple):  # which are searched
            budget.spend(whole(of))
        if isinstance(of, str) and name == "replace":
            _spend_on_replacing(budget, of, *args)
        result = super().call(__context, __obj, *args, **named)
        budget.spend(size(result))
        return result

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        budget = _budget(context)
        if operator == "%" and isinstance(left, str):
            raise SecurityError("% formats no text here; use ~ to join texts")
        if operator == "+":
            budget.spend(size(left) + size(right))
        elif operator == "*":
            budget.spend(_product(left, right))
        elif operator == "**":
            budget.spend(_bits(left) * right if isinstance(right, int) else 1)
        return super().call_binop(context, operator, left, right)


def _budget(context: Context) -> Budget:
    budget = context[BUDGET]
    assert isinstance(budget, Budget)
    return budget


@pass_context
def _written(context: Context, value: object) -> str:
    """What `{{ value }}` writes: for a single value the same as a placeholder, for others JSON."""
    if value is None:
        raise ValueError('a value that it writes is null; test it first, or write {{ value or "..." }}')
    if isinstance(value, bool | list | tuple | dict):
        return str(_to_json(context, value))
    if isinstance(value, str | int | float | Undefined):
        _budget(context).spend(size(value))
        return str(value)
    raise SecurityError(f"it writes a {type(value).__name__}, which is no text")


@pass_context
def _priced(context: Context, value: object) -> object:
    _budget(context).spend(size(value))
    return value


@pass_context
def _priced_whole(context: Context, value: object) -> object:
    _budget(context).spend(whole(value))
    return value


@pass_context
def _compared(context: Context, value: object, *operands: Any) -> object:
    """Of `a < b <= c`, as Python has it: operators' names, each before its value."""
    found: object = True
    for name, other in zip(operands[::2], operands[1::2], strict=True):
        _budget(context).spend(price_of_comparison(name, value, other))
        if not (found := COMPARISONS[name](value, other)):
            return found
        value = other
    return found


@pass_context
def _turns(context: Context, items: Iterable[object], characters: int) -> Iterable[object]:
    return _budget(context).turns(items, characters)


@pass_context
def _joined_up(context: Context, parts: list[object]) -> str:
    texts = [_written(context, part) for part in parts]
    return "".join(texts)


@pass_context
def _join(context: Context, items: Iterable[object], between: str = "", attribute: str | None = None) -> str:
    if attribute is not None:
        items = [context.environment.getattr(item, attribute) for item in items]
    texts = [_written(context, item) for item in items]
    _budget(context).spend(len(texts) * len(between))
    return between.join(texts)


@pass_context
def _replace(context: Context, value: object, old: str, new: str) -> str:
    text = _written(context, value)
    _spend_on_replacing(_budget(context), text, old, new)
    return text.replace(old, new)


def _spend_on_replacing(budget: Budget, text: str, old: str = "", new: str = "", *_: object) -> None:
    budget.spend(text.count(old) * len(new))


def _round(value: float, digits: int = 0) -> float:
    return round(value, digits)


def _sum(items: Iterable[float], attribute: str | None = None) -> float:
    return sum(item[attribute] if isinstance(item, Mapping) else item for item in items)


@pass_context
def _to_json(context: Context, value: object) -> str:
    """Piece by piece: a list that holds one twice, which holds another twice, and so on, has no end."""
    budget, parts = _budget(context), []
    for part in json.JSONEncoder(ensure_ascii=False).iterencode(value):
        budget.spend(len(part) + _PIECE)
        parts.append(part)
    return "".join(parts)


def _of_text(change: Callable[..., Any]) -> Callable[..., Any]:
    """A filter of texts, for all that can be written as one."""

    @pass_context
    def changed(context: Context, value: object, *args: Any, **named: Any) -> Any:
        return change(_written(context, value), *args, **named)

    return changed


def _priced_test(name: str, test: Any) -> Callable[..., bool]:
    @pass_context
    def tested(context: Context, value: object, *args: object) -> bool:
        _budget(context).spend(price_of_test(name, value, args))
        return bool(test(value, *args))

    return tested


def _product(left: object, right: object) -> int:
    """What it costs, before it is made."""
    if isinstance(left, int) and isinstance(right, int):
        return _bits(left) + _bits(right)
    many, times = (left, right) if isinstance(right, int) else (right, left)
    return size(many) * times if isinstance(times, int) else 1


def _bits(number: object) -> int:
    return number.bit_length() if isinstance(number, int) else 1
