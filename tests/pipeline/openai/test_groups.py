import hashlib
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from pipeline.errors import InputError
from pipeline.openai import groups
from pipeline.openai.endpoints import Usual
from pipeline.openai.groups import Groups, digest, sort_batch
from pipeline.openai.requests import Refusal


def line(custom_id: str, **body: Any) -> str:
    return json.dumps({"custom_id": custom_id, "url": "/v1/completions", "body": {"prompt": custom_id * 2, **body}})


def sort(tmp_path: Path, *lines: str) -> Groups:
    (tmp_path / "in.jsonl").write_text("\n".join(lines))
    return sort_batch(tmp_path / "in.jsonl", tmp_path / "groups", Usual(9, "last"))


def test_lines_that_agree_are_a_group(tmp_path: Path) -> None:
    found = sort(
        tmp_path, line("a"), line("b", temperature=0), "", line("c", user="me"), "{", line("d", temperature=0.0)
    )
    assert [list(group.requests()) for group in found.groups] == [
        [(1, "a", 1), (4, "c", 1)],
        [(2, "b", 1), (6, "d", 1)],
    ]
    assert [group.terms.fields["temperature"] for group in found.groups] == [1, 0]
    assert [(refusal.line, refusal.code) for refusal in found.refusals] == [(5, "invalid_json_line")]
    rows = [json.loads(text) for text in found.groups[0].rows.read_text().splitlines()]
    assert rows[1] == {"key": "4.0", "line": 4, "custom_id": "c", "content": "cc"}


def test_what_some_editors_put_before_the_first_line_is_no_part_of_it(tmp_path: Path) -> None:
    (found,) = sort(tmp_path, "\ufeff" + line("a"), line("b")).groups
    assert list(found.requests()) == [(1, "a", 1), (2, "b", 1)]


def test_each_prompt_of_a_line_is_a_row(tmp_path: Path) -> None:
    (found,) = sort(tmp_path, line("a", prompt=["x", "y"]), line("b")).groups
    assert list(found.requests()) == [(1, "a", 2), (2, "b", 1)]
    rows = [json.loads(text) for text in found.rows.read_text().splitlines()]
    assert [(row["key"], row["content"]) for row in rows] == [("1.0", "x"), ("1.1", "y"), ("2.0", "bb")]


def test_a_custom_id_counts_once(tmp_path: Path) -> None:
    found = sort(tmp_path, line("a"), line("b"), line("a", temperature=0))
    message = "custom_id is that of line 1, too. Give each line one of its own."
    assert found.refusals == [Refusal(3, "a", "duplicate_custom_id", message)]
    assert [list(group.requests()) for group in found.groups] == [[(1, "a", 1), (2, "b", 1)]]


def test_a_line_that_is_nested_without_end_is_its_own_error(tmp_path: Path) -> None:
    schema = json.loads('{"a": ' * 400 + "1" + "}" * 400)
    found = sort(tmp_path, line("a", guided_json=schema), line("b"))
    message = "The line is nested more than 100 deep. Make it flatter."
    assert found.refusals == [Refusal(1, "a", "invalid_request", message)]
    assert [list(group.requests()) for group in found.groups] == [[(2, "b", 1)]]


def test_two_at_once_sort_a_file_once(tmp_path: Path) -> None:
    batch = tmp_path / "in.jsonl"
    batch.write_text("\n".join(line(str(number), temperature=number % 2) for number in range(500)))
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(lambda _: sort_batch(batch, tmp_path / "groups", Usual(9, "last")), range(4)))
    assert found == found[:1] * 4
    assert [len(list(group.requests())) for group in found[0].groups] == [250, 250]


def test_sorting_again_leaves_the_files_as_they_are(tmp_path: Path) -> None:
    one = sort(tmp_path, line("a"), "{", line("b", n=2))
    before = [group.rows.stat().st_mtime_ns for group in one.groups]
    assert sort(tmp_path, line("a"), "{", line("b", n=2)) == one
    assert [group.rows.stat().st_mtime_ns for group in one.groups] == before


def test_too_many_groups_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(groups, "_MOST_GROUPS", 2)
    with pytest.raises(InputError, match=r"^Up to line 3, .* ask for answers in 2 different ways"):
        sort(tmp_path, *(line(str(seed), seed=seed + 1) for seed in range(3)))
    assert not (tmp_path / "groups" / "groups.json").exists()


def test_a_digest_is_of_the_bytes_and_of_what_is_asked(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x")
    (tmp_path / "b").write_text("x")
    assert digest(tmp_path / "a", 1) == digest(tmp_path / "b", 1) != digest(tmp_path / "a", 2)
    with pytest.raises(InputError, match="does not exist"):
        digest(tmp_path / "c")


def test_what_another_version_sorted_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a").write_text(line("a"))
    before = digest(tmp_path / "a")
    monkeypatch.setattr(groups, "_VERSION", 0)
    assert digest(tmp_path / "a") != before


def test_what_is_made_of_a_line_has_the_version_that_it_was_made_by(tmp_path: Path) -> None:
    """Where this fails, raise _VERSION, and then say here what is made of the lines now."""
    chat = {"custom_id": "b", "url": "/v1/chat/completions", "body": {"messages": [{"role": "user", "content": "x"}]}}
    embed = {"custom_id": "c", "url": "/v1/embeddings", "body": {"input": [[5, 6]]}}
    sort(tmp_path, line("a", n=2), json.dumps(chat), json.dumps(embed), line("a"))
    made = "".join(path.read_text() for path in sorted((tmp_path / "groups").glob("*.json*")))
    assert (groups._VERSION, hashlib.sha256(made.encode()).hexdigest()) == (
        3,
        "b4ee2ccc3df17cb4c194fad343cd7b85dc4ff86ccb7158766ac7807bba161c7a",
    )
