"""What a schedule's jobs and their outputs are called: a pattern, filled with the time that they are for."""

import re
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path

from pipeline.errors import SpecError, nearest
from pipeline.spec import JobSpec

_FIELDS = ("date", "time", "schedule")
_FIELD = re.compile(r"\{([^{}]*)\}")


def filled(pattern: str, schedule: str, at: datetime) -> str:
    """`{date}` is 2026-12-01, `{time}` 0200, on the clock of `at`. Raises SpecError for any other field."""
    values = {"date": f"{at:%Y-%m-%d}", "time": f"{at:%H%M}", "schedule": schedule}

    def value(field: re.Match[str]) -> str:
        if field[1] not in values:
            raise SpecError(
                f"The pattern {pattern!r} has a field {field[0]}; there are {{date}}, {{time}} and {{schedule}}."
                f"{nearest(field[1], _FIELDS)}"
            )
        return values[field[1]]

    return _FIELD.sub(value, pattern)


def with_output_filled(spec: JobSpec, schedule: str, at: datetime, before: Iterable[datetime] = ()) -> JobSpec:
    """So that no night writes over another one's file, where its name has a date. `before` are the times of earlier
    runs that have a job; behind the name that they have already, there is a number."""
    if spec.output is None:
        return spec
    pattern = str(spec.output)
    output = Path(filled(pattern, schedule, at))
    taken = sum(filled(pattern, schedule, earlier) == str(output) for earlier in before) if "{date}" in pattern else 0
    if taken:
        output = output.with_name(f"{output.stem}-{taken + 1}{output.suffix}")
    return spec.model_copy(update={"output": output})
