import io
from pathlib import Path

import pytest

from pipeline.errors import InputError, JobError, TryAgain
from pipeline.store.export import export


def test_an_export_replaces_the_old_file_whole(engine, reviews, tmp_path):
    target = tmp_path / "out.csv"
    target.write_text("old")
    export(engine, reviews, "csv", target)
    assert target.read_text().startswith('"row_id"')
    assert [path.name for path in tmp_path.iterdir() if "out" in path.name] == ["out.csv"]


def test_a_failed_export_leaves_the_old_file(engine, reviews, tmp_path):
    target = tmp_path / "out.csv"
    target.write_text("old")
    (tmp_path / "00001.parquet").unlink()
    with pytest.raises(InputError, match=r"The shard .*00001\.parquet, which holds rows of the input, cannot be read"):
        export(engine, reviews, "csv", target)
    assert target.read_text() == "old"
    assert [path.name for path in tmp_path.iterdir() if "out" in path.name] == ["out.csv"]


def test_a_link_stays_a_link(engine, reviews, tmp_path):
    (tmp_path / "link.csv").symlink_to(tmp_path / "real.csv")
    export(engine, reviews, "csv", tmp_path / "link.csv")
    assert (tmp_path / "link.csv").is_symlink()
    assert (tmp_path / "real.csv").read_text().startswith('"row_id"')


@pytest.mark.parametrize("file_format", ["csv", "jsonl", "parquet"])
def test_a_full_disk_says_so(engine, reviews, file_format):
    with pytest.raises(TryAgain, match="/dev/full could not be written: the disk is full"):
        export(engine, reviews, file_format, Path("/dev/full"))
    told = pytest.raises(TryAgain, match="The output could not be written: the disk is full")
    with Path("/dev/full").open("wb", buffering=0) as stream, told:
        export(engine, reviews, file_format, stream)


def test_a_target_that_cannot_be_written_says_so(engine, reviews, tmp_path):
    (tmp_path / "file").write_text("")
    for target, reason in {
        tmp_path / "none" / "out.csv": "No such file or directory",
        tmp_path / "file" / "out.csv": "Not a directory",
        tmp_path: "Is a directory",
    }.items():
        with pytest.raises(JobError, match=f"{target} cannot be written: {reason}"):
            export(engine, reviews, "csv", target)


def test_a_reader_that_went_away_is_not_an_error_of_ours(engine, reviews):
    class Gone(io.BytesIO):
        def write(self, data: object) -> int:
            raise BrokenPipeError

    with pytest.raises(BrokenPipeError):
        export(engine, reviews, "jsonl", Gone())
