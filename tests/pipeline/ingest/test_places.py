"""Places on a real disk, by path and by URL, and in a file system that lives in memory in place of a store."""

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from pyarrow import fs

from pipeline.errors import InputError, SpecError
from pipeline.ingest.inputs import resolve
from pipeline.ingest.places import delete, deposit, exists, fetched, join, opened, written
from pipeline.ingest.rows import read_rows
from pipeline.ingest.shards import cut

Write = Callable[[str, bytes], str]


@pytest.fixture(params=["path", "file", "mock"])
def folder(request: pytest.FixtureRequest, tmp_path: Path, store: fs.FileSystem) -> str:
    """A folder that is not there yet, by each kind of name."""
    local = tmp_path / "all see" / "shards"
    return {"path": str(local), "file": local.as_uri(), "mock": "mock:///night/shards"}[request.param]


def content(place: str) -> bytes:
    with opened(place) as file:
        return bytes(file.read())


def put(place: str, data: bytes) -> None:
    with written(place) as file:
        file.write(data)


def test_names_are_joined_before_the_options_of_a_url() -> None:
    assert join("/home/jobs", "j1", "shards") == "/home/jobs/j1/shards"
    assert join("jobs/", "0.parquet") == "jobs/0.parquet"
    assert join("s3://bucket/dir/", "0.parquet") == "s3://bucket/dir/0.parquet"
    assert (
        join("s3://bucket?region=eu&endpoint_override=host:9/x", "j1", "a")
        == "s3://bucket/j1/a?region=eu&endpoint_override=host:9/x"
    )


def test_what_is_written_is_read_and_deleted(folder: str) -> None:
    place = join(folder, "0.bin")
    assert not exists(place)
    put(place, b"one")
    put(place, b"two")
    assert exists(place)
    assert content(place) == b"two"
    with opened(place) as file:
        file.seek(1)
        assert file.read(1) == b"w"
    delete(place)
    assert not exists(place)
    delete(place)


def test_a_folder_is_deleted_with_all_in_it(folder: str) -> None:
    for name in ("a", "b"):
        put(join(folder, name, "0.bin"), b"x")
    delete(join(folder, "a"))
    assert not exists(join(folder, "a", "0.bin"))
    assert exists(join(folder, "b", "0.bin"))


def test_what_fails_halfway_leaves_what_was_there(folder: str, store: fs.FileSystem, tmp_path: Path) -> None:
    place = join(folder, "0.bin")
    put(place, b"old")

    def fail() -> None:
        with written(place) as file:
            file.write(b"half of the new")
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert content(place) == b"old"
    assert not list(tmp_path.rglob("*.tmp"))


def test_a_killed_writer_leaves_nothing_under_the_name(tmp_path: Path) -> None:
    place = tmp_path / "0.bin"
    program = f"""
from pipeline.ingest.places import written
with written({str(place)!r}) as file:
    file.write(b"x" * 100_000)
    file.flush()
    print("half", flush=True)
    time.sleep(60)
"""
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "half\n"
        process.kill()
    assert not place.exists()


def test_what_is_not_there_is_an_error_of_the_input(folder: str) -> None:
    with pytest.raises(InputError, match=r"0\.bin does not exist\."):
        content(join(folder, "0.bin"))


def test_shards_are_cut_and_read_at_any_place(folder: str, write: Write) -> None:
    source = resolve([write("a.csv", b"id,text\n" + b"".join(b"k%d,text %d\n" % (n, n) for n in range(7)))])
    shards = list(cut(source, folder, shard_rows=3, key="id", limit=None))
    assert [(shard.path, shard.row_to) for shard in shards] == [
        (join(folder, f"0000{n}.parquet"), end) for n, end in enumerate((3, 6, 7))
    ]
    rows = [row for shard in shards for row in read_rows(shard.path, shard.row_from, columns=["text"], key="id")]
    assert [(row.row_id, row.key, row.values["text"]) for row in rows] == [(n, f"k{n}", f"text {n}") for n in range(7)]


def test_keys_that_were_used_twice_are_found_at_any_place(folder: str, write: Write) -> None:
    source = resolve([write("a.csv", b"id\na\nb\nc\na\n")])
    with pytest.raises(InputError, match=r'"a" twice'):
        list(cut(source, folder, shard_rows=3, key="id", limit=None))


def test_a_folder_of_files_travels(folder: str, tmp_path: Path) -> None:
    here = tmp_path / "tokenizer"
    (here / "more").mkdir(parents=True)
    (here / "tokenizer.json").write_bytes(b"{}")
    (here / "tokenizer_config.json").write_bytes(b"[]")
    deposit(here, folder)
    copies = [fetched(folder, tmp_path / "copies") for _ in range(2)]
    assert copies[0] == copies[1]
    assert {path.name: path.read_bytes() for path in copies[0].iterdir()} == {
        "tokenizer.json": b"{}",
        "tokenizer_config.json": b"[]",
    }
    assert [path.name for path in tmp_path.glob("copies/*")] == ([copies[0].name] if "mock" in folder else [])


def test_a_folder_that_is_not_there_is_not_fetched(folder: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"/shards, which .* does not exist on this machine\."):
        fetched(folder, tmp_path / "copies")
    assert list(tmp_path.glob("copies/*")) == []


@pytest.mark.parametrize(
    "place",
    [
        "s3://key:open sesame@bucket/dir/0.bin",
        "s3://bucket/dir/0.bin?secret_key=open%20sesame",
        "abfs://:open sesame@account/dir/0.bin",
        "abfs://account/dir/0.bin?sig=open",
    ],
)
def test_a_url_with_a_secret_is_refused_without_telling_it(place: str) -> None:
    with pytest.raises(SpecError, match="holds a secret, which would be kept in the database") as caught:
        put(place, b"")
    assert "open" not in str(caught.value)
    assert "dir/0.bin" in str(caught.value)


@pytest.mark.parametrize("place", ["nope://bucket/x", "file://host/x", "s3://[x/y", "s3://a b/c"])
def test_a_url_that_makes_no_sense_is_refused(place: str) -> None:
    with pytest.raises(SpecError, match="is no place that files can lie at"):
        exists(place)


class Closed(BaseHTTPRequestHandler):
    """A store that lets nobody in."""

    def do_HEAD(self) -> None:
        self.send_error(403)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def closed() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), Closed) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"s3://bucket/dir?endpoint_override=127.0.0.1:{server.server_port}&scheme=http&region=eu"
        server.shutdown()
        thread.join()


def test_a_store_that_does_not_let_us_in_is_told_without_its_credentials(
    closed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "me")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "open sesame")
    with pytest.raises(InputError, match=r"^s3://bucket/dir/0\.bin\?.* cannot be used: .*ACCESS_DENIED") as caught:
        content(join(closed, "0.bin"))
    assert "sesame" not in str(caught.value)
