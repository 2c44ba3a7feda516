"""The three files of `pipeline run-batch`, checked before anything is done."""

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from pipeline.errors import SpecError
from pipeline.store.target_file import require_target

_GZIP = b"\x1f\x8b"


@dataclass(frozen=True, slots=True)
class BatchFiles:
    batch: Path
    output: Path
    errors: Path

    @classmethod
    def of(cls, batch: Path, output: Path, errors: Path | None) -> "BatchFiles":
        """Raises SpecError for what would be lost, and that or JobError for what cannot be written."""
        _check_input(batch)
        if errors is None and output.exists() and not output.is_file() and not output.is_dir():
            raise SpecError(f"{output} is no file, so there is no place beside it for errors. Give --error-file, too.")
        errors = errors or output.with_name(f"{output.stem}.errors{output.suffix}")
        for path, flag in ((output, "--output-file"), (errors, "--error-file")):
            if not path.parent.is_dir():
                raise SpecError(f"{flag} cannot be written: there is no directory {path.parent}. Make it first.")
            if path.is_dir():
                raise SpecError(f"{flag} cannot be written: {path} is a directory. Name a file in it.")
        if len({path.resolve() for path in (batch, output, errors)}) < 3:
            raise SpecError("The input, the output and the error file must be three files.")
        for path in (output, errors):
            require_target(path)
        return cls(batch, output, errors)


def _check_input(batch: Path) -> None:
    if batch.exists() and not batch.is_file():
        raise SpecError(f"--input-file must be a file, as it is read more than once, and {batch} is none.")
    with suppress(OSError), batch.open("rb") as file:  # what cannot be read is told where it is read
        if file.read(len(_GZIP)) == _GZIP:
            raise SpecError(f"{batch} is compressed by gzip, and --input-file must be plain text. Unpack it first.")
