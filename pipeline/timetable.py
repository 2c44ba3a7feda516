"""When a schedule's nights are: a cron line in a time zone, as moments, and what daylight saving does to each.

As in Debian's cron: of a line that names its minute and hour, a time that does not exist on a night comes at the end of
the gap, and one that comes twice counts once. Lines with * in either follow the clock as it goes.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import dropwhile, islice, takewhile
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from cronsim import CronSim, CronSimError

from pipeline.errors import SpecError, nearest

_MINUTE = timedelta(minutes=1)
#: Of what a schedule missed, more is never listed one by one; a line that comes every minute misses many.
MOST_MISSED = 50
#: The longest step of each field of a cron line: a longer one would come at its first time alone.
_STEPS = (("an hour", 59), ("a day", 23), ("a month", 30), ("a year", 11), ("a week", 6))
#: CronSim's words for a day that no month has, and for one that those of the line do not have.
_BAD_DAY = "Bad day-of-month"
#: Other crons' words.
_WORDS = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}


@dataclass(frozen=True, slots=True)
class Planned:
    """A moment at which a job is to start."""

    at: datetime  #: in the schedule's zone
    remark: str | None  #: what daylight saving makes of it


@dataclass(frozen=True, slots=True)
class Due:
    """What has come since a schedule was looked at last, as seconds since the epoch."""

    latest: float
    missed: tuple[float, ...]  #: those before it, the newest MOST_MISSED of them
    untold: int  #: still earlier ones


class Timetable:
    """Raises SpecError for a cron line or a zone that makes no sense, or a line that never comes."""

    def __init__(self, cron: str, zone: str) -> None:
        self.cron, self.zone = " ".join(cron.split()), _zone(zone)
        try:
            if len(cron.split()) != 5:
                raise CronSimError("It must have five fields")
            comes = next(CronSim(self.cron, datetime(2000, 1, 1)), None)
        except CronSimError as error:
            if str(error) == _BAD_DAY and _comes_in_other_months(self.cron):
                raise SpecError(
                    f"--cron {self.cron!r} never comes: no month that it names has so many days. L is the last day of "
                    "any month."
                ) from error
            raise SpecError(
                f"--cron {self.cron!r} is no cron line: {error}. Give minute, hour, day of the month, month and day of "
                'the week, such as "0 2 * * *" for every night at two.'
            ) from error
        if comes is None:
            raise SpecError(f"--cron {self.cron!r} never comes: there is no such day.")

    def after(self, moment: float) -> Iterator[float]:
        """All times behind it, without an end."""
        return (planned.timestamp() for planned in self._after(moment))

    def due(self, first: float, now: float) -> Due | None:
        """Of the times from `first` on, itself one of them, those that have come; None where none has."""
        if first > now:
            return None
        come = [first, *takewhile(lambda moment: moment <= now, self.after(first))]
        missed = come[:-1]
        return Due(come[-1], tuple(missed[-MOST_MISSED:]), max(0, len(missed) - MOST_MISSED))

    def next(self, moment: float, count: int) -> list[Planned]:
        """So many of the times behind it."""
        return [Planned(at, self._remark(at)) for at in islice(self._after(moment), count)]

    def explained(self) -> str:
        """The line in words."""
        return CronSim(self.cron, datetime(2000, 1, 1)).explain()

    def _after(self, moment: float) -> Iterator[datetime]:
        """In the hour that comes a second time, CronSim begins with what is over."""
        times = CronSim(self.cron, datetime.fromtimestamp(moment, self.zone))
        return dropwhile(lambda at: at.timestamp() <= moment, times)

    def _remark(self, at: datetime) -> str | None:
        wall = at.replace(tzinfo=None)
        if at.replace(fold=0).timestamp() < at.replace(fold=1).timestamp():
            follows_the_clock = "*" in "".join(self.cron.split()[:2])
            which = f"this is the {'second' if at.fold else 'first'} time" if follows_the_clock else "the first counts"
            return f"{wall:%H:%M} comes twice that night; {which}"
        before = (at.astimezone(UTC) - _MINUTE).astimezone(at.tzinfo).replace(tzinfo=None)
        wished = next(CronSim(self.cron, before))
        if before + _MINUTE < wall and wished < wall:
            return f"{wished:%H:%M} does not exist that night; the clock goes on to {wall:%H:%M}"
        return None


def as_typed(cron: str, zone: str) -> Timetable:
    """Of a line that somebody gives. Also raises SpecError for one that would come otherwise than it reads."""
    if (line := _WORDS.get(cron.strip())) is not None:
        raise SpecError(f'--cron {cron} is written "{line}" here.')
    timetable = Timetable(cron, zone)
    for field, (name, most) in zip(timetable.cron.split(), _STEPS, strict=True):
        for step in re.findall(r"/(\d+)", field):
            if int(step) > most:
                raise SpecError(f"--cron {cron!r}: a step of {step} is longer than {name}; give {most} at most.")
    return timetable


def _comes_in_other_months(cron: str) -> bool:
    fields = cron.split()
    try:
        CronSim(" ".join([*fields[:3], "*", *fields[4:]]), datetime(2000, 1, 1))
    except CronSimError:
        return False
    return True


def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        # What is like CEST is EST, an ocean away.
        known = sorted(zone for zone in available_timezones() if "/" in zone or zone == "UTC")
        raise SpecError(
            f"--tz {name!r} is no time zone; give one such as Europe/Berlin or UTC.{nearest(name, known)}"
        ) from None
