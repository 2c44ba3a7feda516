from collections.abc import Sequence
from pathlib import Path

import pytest

from pipeline.errors import InputError
from pipeline.ingest import token_files
from pipeline.ingest.token_files import TokenFile, TokenFiles, write

MESSAGES = [b"first", b"", bytes(range(256)) * 300]


@pytest.fixture
def place(tmp_path: Path) -> str:
    place = str(tmp_path / "shards" / "00000-1.tokens")
    write(place, MESSAGES)
    return place


def test_every_message_is_read_by_its_place_in_any_order(place: str) -> None:
    file = TokenFile(place)
    assert [file.message(part) for part in (2, 0, 1, 2)] == [MESSAGES[part] for part in (2, 0, 1, 2)]
    file.close()


def test_a_shard_of_failures_alone_has_no_messages(tmp_path: Path) -> None:
    write(str(tmp_path / "0.tokens"), [])
    with pytest.raises(InputError, match=r"0\.tokens has no part 0: it holds 0\."):
        TokenFile(str(tmp_path / "0.tokens")).message(0)


@pytest.mark.parametrize("part", [-1, 3])
def test_a_part_that_is_not_there(place: str, part: int) -> None:
    with pytest.raises(InputError, match=rf"has no part {part}: it holds 3\."):
        TokenFile(place).message(part)


def test_a_file_that_is_missing_or_damaged_is_told_and_leaves_the_batch_without_tokens(
    place: str, caplog: pytest.LogCaptureFixture
) -> None:
    files, damaged = TokenFiles(), Path(place).with_name("damaged.tokens")
    damaged.write_bytes(Path(place).read_bytes()[:-200])
    assert files.message(str(damaged), 0) is None
    assert files.message(f"{place}.gone", 0) is None
    assert files.message(place, 9) is None
    assert [record.message.partition(":")[0] for record in caplog.records] == [
        "A batch goes without its tokens, to be encoded again"
    ] * 3
    assert files.message(place, 0) == b"first"


def test_no_file_is_opened_twice_and_few_stay_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    places = [str(tmp_path / f"{name}.tokens") for name in "abc"]
    for place in places:
        write(place, [place.encode()])
    opened, real = [], token_files.open_file
    monkeypatch.setattr(token_files, "open_file", lambda place: opened.append(real(place)) or opened[-1])
    files = TokenFiles(most=2)

    def read(asked: Sequence[int]) -> list[bytes | None]:
        return [files.message(places[at], 0) for at in asked]

    assert read([0, 1, 0, 1, 0]) == [places[at].encode() for at in (0, 1, 0, 1, 0)]
    assert len(opened) == 2
    read([2, 0, 2])
    assert [file.closed for file in opened] == [False, True, False]
    read([1])
    assert [file.closed for file in opened] == [True, True, False, False]
    files.close()
    assert all(file.closed for file in opened)
