"""Stage 2: what comparing values costs in a prompt's own template, before it is done.

A list that holds another one twice, which holds another one twice, and so on, is small, and takes for ever to compare.
"""

import operator
from collections.abc import Callable, Mapping
from typing import Any

from pipeline.prompts.budget import MOST, size

Compare = Callable[[Any, Any], object]

#: By jinja's names of operators.
COMPARISONS: Mapping[str, Compare] = {
    "eq": operator.eq,
    "ne": operator.ne,
    "gt": operator.gt,
    "gteq": operator.ge,
    "lt": operator.lt,
    "lteq": operator.le,
    "in": lambda left, right: left in right,
    "notin": lambda left, right: left not in right,
}
#: Tests that do the same, and others that go through a value.
_COMPARING = frozenset(
    ("eq", "==", "equalto", "ne", "!=", "gt", ">", "greaterthan", "ge", ">=", "lt", "<", "lessthan", "le", "<=")
)
_READING = frozenset(("lower", "upper"))


def whole(value: object, most: int = MOST) -> int:
    """Like size(), with all that is within; about, where that is more than `most`."""
    total, left = 0, [value]
    while left and total <= most:
        one = left.pop()
        total += size(one)
        if isinstance(one, list | tuple):
            left += one
        elif isinstance(one, dict):
            left += one.values()
    return total


def price_of_comparison(name: str, left: object, right: object) -> int:
    if name not in ("in", "notin"):
        small, large = sorted((left, right), key=size)
        most = whole(small)
        return min(most, whole(large, most))
    if isinstance(right, dict):
        return whole(left)
    most = size(right) * (1 + whole(left))
    return min(most, whole(right, most)) if isinstance(right, list | tuple) else size(right)


def price_of_test(name: str, value: object, args: tuple[object, ...]) -> int:
    if args and (name in _COMPARING or name == "in"):
        return price_of_comparison(name, value, args[0])
    return whole(value) if name in _READING else 1
