import json

import pytest

from pipeline.ingest.nesting import MOST_LEVELS, too_deep


def nested(levels: int, bracket: str = "[") -> bytes:
    opened, closed = ("[", "]") if bracket == "[" else ('{"a":', "}")
    return (opened * levels + "1" + closed * levels).encode()


@pytest.mark.parametrize("bracket", ["[", "{"])
def test_the_first_line_that_is_too_deep(bracket: str) -> None:
    deep, whole = nested(MOST_LEVELS + 1, bracket), nested(MOST_LEVELS, bracket)
    assert too_deep(whole) is None
    assert too_deep(b"\n".join([whole, b"", deep, deep])) == 2
    assert too_deep(b"[" * 1_000_000) == 0


@pytest.mark.parametrize("text", ["[" * 500, '\\"' + "{" * 500, "\\\\[" * 500, '"' * 500 + "["])
def test_what_stands_in_a_text_is_not_nested(text: str) -> None:
    assert too_deep(json.dumps({"a": [text] * 200, "b": [[]] * 200}).encode()) is None
    assert too_deep(json.dumps([text, json.loads(nested(MOST_LEVELS))]).encode()) == 0
