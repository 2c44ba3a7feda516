"""How deep JSON is nested, told without going down into it: its readers do, and a process can end in the depth."""

import re
from itertools import accumulate

#: Lists and objects within each other: more than any table has, and what every reader can go through.
MOST_LEVELS = 100

_TEXT = re.compile(rb'"(?:[^"\\]|\\.)*"?', re.DOTALL)
_STEPS = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}


def too_deep(lines: bytes) -> int | None:
    """The place of the first line that is nested deeper than MOST_LEVELS."""
    if not _may_be_deep(lines, lines.count(b"\n") + 1):
        return None
    return next((place for place, line in enumerate(lines.split(b"\n")) if _is_deep(line)), None)


def _may_be_deep(data: bytes, usual: int) -> bool:
    """So many objects, one on each line, are no reason to look closer."""
    return data.count(b"[") + data.count(b"{") > usual + MOST_LEVELS - 1


def _is_deep(line: bytes) -> bool:
    if not _may_be_deep(line, 1):
        return False
    steps = (_STEPS.get(byte, 0) for byte in _TEXT.sub(b"", line))
    return any(level > MOST_LEVELS for level in accumulate(steps))
