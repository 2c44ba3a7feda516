"""Cron lines in time zones, over nights on which the clock is put forward or back."""

from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

from pipeline.errors import SpecError
from pipeline.timetable import MOST_MISSED, Timetable, as_typed


def moment(text: str, zone: str, fold: int = 0) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone), fold=fold).timestamp()


def nights(cron: str, zone: str, since: str, count: int) -> list[tuple[str, str | None]]:
    return [
        (f"{planned.at:%m-%d %H:%M %Z}", planned.remark)
        for planned in Timetable(cron, zone).next(moment(since, zone), count)
    ]


def test_a_time_that_does_not_exist_comes_at_the_end_of_the_gap():
    gone = "02:30 does not exist that night; the clock goes on to 03:00"
    assert nights("30 2 * * *", "Europe/Berlin", "2027-03-26T12:00", 3) == [
        ("03-27 02:30 CET", None),
        ("03-28 03:00 CEST", gone),
        ("03-29 02:30 CEST", None),
    ]
    assert nights("30 2 * * *", "America/New_York", "2027-03-13T12:00", 2)[0] == ("03-14 03:00 EDT", gone)


def test_a_time_that_comes_twice_counts_once():
    assert nights("30 2 * * *", "Europe/Berlin", "2027-10-30T12:00", 2) == [
        ("10-31 02:30 CEST", "02:30 comes twice that night; the first counts"),
        ("11-01 02:30 CET", None),
    ]
    assert nights("30 1 * * *", "America/New_York", "2027-11-06T12:00", 2) == [
        ("11-07 01:30 EDT", "01:30 comes twice that night; the first counts"),
        ("11-08 01:30 EST", None),
    ]


def test_lines_that_follow_the_clock_come_as_often_as_it_does():
    assert nights("*/30 2 * * *", "Europe/Berlin", "2027-10-30T12:00", 4) == [
        ("10-31 02:00 CEST", "02:00 comes twice that night; this is the first time"),
        ("10-31 02:30 CEST", "02:30 comes twice that night; this is the first time"),
        ("10-31 02:00 CET", "02:00 comes twice that night; this is the second time"),
        ("10-31 02:30 CET", "02:30 comes twice that night; this is the second time"),
    ]


@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "UTC"])
def test_a_year_of_nights_has_one_run_each_and_each_follows_its_forerunner(zone):
    timetable = Timetable("15 2 * * *", zone)
    planned = timetable.next(moment("2027-01-01T00:00", zone), 365)
    assert len({night.at.date() for night in planned}) == 365
    times = [night.at.timestamp() for night in planned]
    assert times[1:] == [next(timetable.after(before)) for before in times[:-1]]


def test_in_the_hour_that_comes_again_nothing_is_planned_in_the_past():
    now = moment("2027-10-31T02:10", "Europe/Berlin", fold=1)
    (planned,) = Timetable("30 2 * * *", "Europe/Berlin").next(now, 1)
    assert f"{planned.at:%m-%d}" == "11-01"


def test_what_has_come_since_is_told_up_to_a_bound():
    timetable, first = Timetable("* * * * *", "UTC"), moment("2027-01-01T00:00", "UTC")
    assert timetable.due(first, first - 1) is None
    due = timetable.due(first, first + 150)
    assert (due.latest, due.missed, due.untold) == (first + 120, (first, first + 60), 0)
    due = timetable.due(first, first + 60 * 200)
    assert (due.latest, len(due.missed), due.untold) == (first + 60 * 200, MOST_MISSED, 200 - MOST_MISSED)


@pytest.mark.parametrize(
    ("cron", "zone", "why"),
    [
        ("0 2 * *", "UTC", "It must have five fields"),
        ("0 0 2 * * *", "UTC", "It must have five fields"),
        ("61 2 * * *", "UTC", "Bad minute"),
        ("0 0 32 4 *", "UTC", "Bad day-of-month"),
        ("0 0 31 4 *", "UTC", "no month that it names has so many days"),
        ("*/70 * * * *", "UTC", "a step of 70 is longer than an hour; give 59 at most"),
        ("@daily", "UTC", 'is written "0 0 . . ." here'),
        ("0 0 */20 * 1L", "UTC", "never comes"),
        ("0 2 * * *", "Europe/Berln", 'Did you mean "Europe/Berlin"?'),
        ("0 2 * * *", "Europe", "is no time zone"),
        ("0 2 * * *", "../etc/passwd", "is no time zone"),
    ],
)
def test_what_makes_no_sense_is_told(cron, zone, why):
    with pytest.raises(SpecError, match=why.replace("?", "\\?")):
        as_typed(cron, zone)


def test_a_zone_an_ocean_away_is_not_proposed():
    with pytest.raises(SpecError) as caught:
        Timetable("0 2 * * *", "CEST")
    assert str(caught.value).endswith("give one such as Europe/Berlin or UTC.")
