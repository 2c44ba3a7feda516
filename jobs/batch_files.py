"""The three files of `pipeline run-batch`, checked before anything is done."""

from dataclasses import dataclass
from pathlib import Path

from pipeline.errors import SpecError


@dataclass(frozen=True, slots=True)
class BatchFiles:
    batch: Path
    output: Path
    errors: Path

    @classmethod
    def of(cls, batch: Path, output: Path, errors: Path | None) -> "BatchFiles":
        """Raises SpecError for what would be lost, or cannot be written."""
        errors = errors or output.with_name(f"{output.stem}.errors{output.suffix}")
        for path, flag in ((output, "--output-file"), (errors, "--error-file")):
            if not path.parent.is_dir():
                raise SpecError(f"{flag} cannot be written: there is no directory {path.parent}. Make it first.")
            if path.is_dir():
                raise SpecError(f"{flag} cannot be written: {path} is a directory. Name a file in it.")
        if len({path.resolve() for path in (batch, output, errors)}) < 3:
            raise SpecError("The input, the output and the error file must be three files.")
        return cls(batch, output, errors)
