"""What the documents list is what the code has."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
DOCS = sorted((ROOT / "docs").glob("*.md"))


def test_the_error_types_that_are_explained_are_those_that_rows_have():
    files = [path for tree in ("pipeline", "workers") for path in (ROOT / tree).rglob("*.py")]
    # Lines of a batch file that cannot be read are no rows.
    source = "\n".join(path.read_text() for path in files if path.parent.name != "openai")
    given = set(re.findall(r'(?:RowError\(\s*|error_type=|^CRASH = |^_TYPE = )"(\w+)"', source, re.MULTILINE))
    table = (ROOT / "docs/failures.md").read_text().partition("## Of a process")[0]
    explained = {
        name for line in table.splitlines() if line[:2] == "| " for name in re.findall(r"`(\w+)`", line.split("|")[1])
    }
    assert explained - {"error_type"} == given


def test_links_between_documents_lead_somewhere():
    links = [
        (path, link)
        for path in (ROOT / "README.md", *DOCS)
        for link in re.findall(r"\]\((?!https?:)([^)#]+)", path.read_text())
    ]
    assert [(path.name, link) for path, link in links if not (path.parent / link).exists()] == []
