"""Stage 2: made-up values that a way of encoding must get right before a job's rows are encoded with it."""

from collections.abc import Sequence
from itertools import pairwise

#: Values that like to merge with what stands beside them, or that a chat template may treat in its own way.
USUAL = (
    *(
        "",
        " ",
        "a",
        "Zebra",
        "the",
        "s",
        "ing",
        "'s",
        "7",
        "123",
        "12",
        "1234567",
        "A",
        "'",
        "a'",
        "!",
        ".\n",
        ".",
        "...",
        ":",
        "-",
        "_",
        "|",
        "(",
        "[",
        "{",
    ),
    *(
        "\n",
        "\n\n",
        "\t",
        "\r\n",
        "\n\nx",
        "x\n",
        " lead",
        "trail ",
        "  two  ",
        "\u00a0x\u00a0",
        "\u200b",
        "\u0301",
        "\u0301e",
    ),
    *("é", "中文", "。", "😀", "👩‍👩‍👧", "▁", "▁x", "##s", "\x00", "\x1c", "<", ">", "/", "a b c. D e f!\n\n1. g"),
)


def usual_values(columns: Sequence[str]) -> list[dict[str, str]]:
    """All columns the same."""
    return [dict.fromkeys(columns, value) for value in USUAL]


def telling_values(columns: Sequence[str], constants: Sequence[str]) -> list[dict[str, str]]:
    """What a chat template's own code may look for in a message: the strings that it names, here and there."""
    wanted = [text for name in constants for text in (name, f"a{name}b", f"{name} a", f"a {name}")]
    wanted += [f"{first} a {second}" for first, second in pairwise(constants)]
    return [dict.fromkeys(columns, value) for value in wanted]
