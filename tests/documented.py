"""The commands that a text for people shows, as a shell would read them."""

import re
from pathlib import Path

_DOCS = Path(__file__).parents[1] / "docs"
#: Texts whose commands go on with the jobs of the README.
GOING_ON = [_DOCS / name for name in ("failures.md", "fleet.md", "results.md", "sql.md", "tuning.md")]


def lines(markdown: Path) -> list[str]:
    """Of all its blocks of shell, in their order; one that goes on behind a backslash is one line."""
    blocks = re.findall(r"```sh\n(.*?)```", markdown.read_text(), re.DOTALL)
    return [line for block in blocks for line in block.replace("\\\n", " ").splitlines()]
