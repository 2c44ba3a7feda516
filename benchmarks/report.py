"""How every benchmark reports: the machine that it ran on, then one table."""

import os
import re
from collections.abc import Sequence
from datetime import date
from pathlib import Path


def threads() -> int:
    """That every contestant computes with."""
    return int(os.environ.get("OMP_NUM_THREADS", 0)) or len(os.sched_getaffinity(0))


def machine() -> str:
    facts = Path("/proc/cpuinfo").read_text()
    name = re.search(r"^model name\s*: (.*)$", facts, re.MULTILINE)
    wide = "AVX-512" if " avx512f " in facts else "AVX2" if " avx2 " in facts else "no AVX2"
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / (1 << 30)
    cores = len(os.sched_getaffinity(0))
    busy = os.getloadavg()[0]
    return (
        f"{cores} cores of {name.group(1) if name else 'a processor'} ({wide}), {memory:.0f} GiB, "
        f"computing threads {threads()}, {date.today()}; load before the run {busy:.1f}"
    )


def table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Columns as wide as their widest cell; numbers to the right, words to the left."""
    columns = [
        _aligned([name, *map(_text, column)], any(isinstance(cell, int | float) for cell in column))
        for name, column in zip(head, zip(*rows, strict=True), strict=True)
    ]
    lines = ["  ".join(cells).rstrip() for cells in zip(*columns, strict=True)]
    return "\n".join([lines[0], "-" * max(map(len, lines)), *lines[1:]])


def _aligned(cells: Sequence[str], right: bool) -> list[str]:
    width = max(map(len, cells))
    return [cell.rjust(width) if right else cell.ljust(width) for cell in cells]


def _text(cell: object) -> str:
    if isinstance(cell, float):
        return f"{cell:,.0f}" if abs(cell) >= 1000 else f"{cell:.3g}"
    return f"{cell:,}" if isinstance(cell, int) else str(cell)
