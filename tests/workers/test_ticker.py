"""Schedules on real databases, by a clock that the test moves."""

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from pipeline.errors import RefusedError
from pipeline.settings import Settings
from pipeline.store.database import Database, open_database
from pipeline.store.ledger import Ledger
from pipeline.store.notices import Notices
from pipeline.store.queries import find_job, list_jobs
from pipeline.store.records import JobRecord, JobState
from pipeline.store.schedule_records import Event, Overlap, RunClaim, RunState, ScheduleRecord
from pipeline.store.schedule_runs import NewRun, ScheduleRuns
from pipeline.store.schedules import Schedules
from pipeline.timetable import Timetable
from workers.submissions import make_ticker

KINDS = ["sqlite", "postgresql"]
LEASE_S, HOUR, DAY = 60.0, 3600.0, 86_400.0
SPEC = '{"notify": {"command": "true"}}'


@dataclass
class Nights:
    """One schedule, the clock that it follows, and what a fleet would do with its runs."""

    database: Database
    now: float = 0.0
    made: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.ledger, self.schedules = Ledger(self.database, self.clock), Schedules(self.database, self.clock)
        self.runs, self.ticker = ScheduleRuns(self.database, self.clock), make_ticker(self.database, self.clock)

    def clock(self) -> float:
        return self.now

    def at(self, text: str, zone: str = "UTC") -> None:
        self.now = datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)).timestamp()

    def add(self, cron: str = "0 2 * * *", zone: str = "UTC", **fields: object) -> ScheduleRecord:
        usual = ScheduleRecord(
            "s", "night", cron, zone, SPEC, "reviews-{date}", None, 6 * HOUR, Overlap.SKIP, False, self.now, 0.0
        )
        schedule = replace(usual, next_at=next(Timetable(cron, zone).after(self.now)), **fields)
        self.schedules.add(schedule)
        return schedule

    def tick(self) -> list[RunClaim]:
        return self.ticker.tick(LEASE_S)

    def submit(self, claim: RunClaim) -> JobRecord:
        """To the fleet, which is at it from then on."""
        job = self.ledger.create_job(self.run(claim).job_name, SPEC, "", "", "", fleet=True, run=claim)
        self.ledger.finish_cutting(job.id, 0)
        self.runs.hand_over(claim)
        return job

    def run(self, claim: RunClaim):
        run, _ = self.schedules.of(run_id=claim.run_id)
        return run

    def states(self) -> list[tuple[str, RunState]]:
        """By day of the month, UTC, the earliest first."""
        found = self.schedules.runs(self.schedules.find("night"))
        return [(f"{datetime.fromtimestamp(run.scheduled_for, UTC):%d %H:%M}", run.state) for run in reversed(found)]

    def notes(self) -> list[str | None]:
        return [run.note for run in reversed(self.schedules.runs(self.schedules.find("night")))]


@pytest.fixture
def kind() -> str:
    return "sqlite"


@pytest.fixture
def open_nights(request: pytest.FixtureRequest, kind: str, tmp_path: Path) -> Iterator[Callable[[], Nights]]:
    sqlite = kind == "sqlite"
    url = f"sqlite:///{tmp_path / 'pipeline.db'}" if sqlite else request.getfixturevalue("postgresql_url")
    opened: list[Database] = []

    def open_one() -> Nights:
        opened.append(open_database(Settings(database_url=url)))
        return Nights(opened[-1])

    yield open_one
    for database in opened:
        database.dispose()


@pytest.fixture
def nights(open_nights: Callable[[], Nights]) -> Nights:
    nights = open_nights()
    nights.at("2027-06-01T12:00")
    return nights


@pytest.mark.parametrize(
    ("kind", "zone", "start", "days", "first", "last"),
    [
        ("postgresql", "Europe/Berlin", "2027-10-24T12:00", 14, "25 00:30", "07 01:30"),
        ("sqlite", "America/New_York", "2027-03-07T12:00", 14, "08 07:30", "21 06:30"),
    ],
)
def test_a_fortnight_across_a_change_of_the_clock_has_one_job_a_night(nights, zone, start, days, first, last):
    nights.at(start, zone)
    nights.add("30 2 * * *", zone)
    for _ in range(days * 6):
        nights.now += 4 * HOUR
        for claim in nights.tick():
            assert nights.ledger.complete(nights.submit(claim).id)
    nights.tick()
    times, states = zip(*nights.states(), strict=True)
    assert (len(times), times[0], times[-1], set(states)) == (days, first, last, {RunState.DONE})
    days_after = [datetime.fromisoformat(start) + timedelta(days=day + 1) for day in range(days)]
    assert {job.name for job in list_jobs(nights.database)} == {f"reviews-{day:%Y-%m-%d}" for day in days_after}


def test_where_nobody_was_there_for_two_nights_the_latest_is_run_and_the_other_told(nights):
    nights.add()
    nights.at("2027-06-03T05:00")
    (claim,) = nights.tick()
    assert nights.run(claim).job_name == "reviews-2027-06-03"
    assert nights.states() == [("02 02:00", RunState.SKIPPED), ("03 02:00", RunState.BEGUN)]
    assert nights.notes()[0] == "Nobody was there to start it; the one of 2027-06-03 02:00 stands for it."
    assert nights.schedules.find("night").next_at == nights.now + 21 * HOUR
    assert Notices(nights.database).claim(1.0) is None


def test_beyond_the_grace_time_none_is_run_and_a_notice_tells_of_the_last(nights):
    nights.add(grace_s=2 * HOUR)
    nights.at("2027-06-03T04:01")
    assert nights.tick() == []
    assert nights.states() == [("02 02:00", RunState.SKIPPED), ("03 02:00", RunState.SKIPPED)]
    assert "until 2027-06-03 04:01, which is beyond its grace time" in str(nights.notes()[1])
    notices = Notices(nights.database)
    notice = notices.claim(60.0)
    assert notice is not None
    assert (notice.event, notice.job_id) == (Event.SKIPPED, None)
    assert notices.claim(60.0) is None


@pytest.mark.parametrize("kind", KINDS)
def test_of_many_tickers_at_once_one_starts_the_run(open_nights):
    crowd = [open_nights() for _ in range(6)]
    for one in crowd:
        one.at("2027-06-01T12:00")
    crowd[0].add()
    claims: list[RunClaim] = []
    together = threading.Barrier(len(crowd))

    def tick(one: Nights) -> None:
        one.at("2027-06-02T02:00")
        together.wait()
        claims.extend(one.tick())

    threads = [threading.Thread(target=tick, args=(one,)) for one in crowd]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(claims) == 1
    assert crowd[0].states() == [("02 02:00", RunState.BEGUN)]


def test_who_looked_at_the_clock_too_early_records_nothing_and_a_time_that_comes_again_is_no_second_run(nights):
    nights.add()
    nights.now += 15 * HOUR
    as_seen = nights.schedules.find("night")
    assert len(nights.tick()) == 1
    late = NewRun(as_seen.next_at, "late", RunState.SKIPPED)
    assert not nights.runs.record(as_seen, [late], as_seen.next_at)
    assert nights.schedules.find("night").next_at == as_seen.next_at + DAY
    nights.schedules.resume(as_seen, as_seen.next_at)
    assert nights.tick() == []
    assert nights.states() == [("02 02:00", RunState.BEGUN)]


def test_while_the_run_before_is_not_over_the_new_one_is_skipped(nights):
    nights.add()
    nights.now += 15 * HOUR
    nights.submit(nights.tick()[0])
    nights.now += DAY
    assert nights.tick() == []
    assert nights.states()[1] == ("03 02:00", RunState.SKIPPED)
    assert nights.notes()[1] == "The run before it, reviews-2027-06-02, was not over."


def test_or_it_waits_in_a_queue(nights):
    nights.add(overlap=Overlap.QUEUE)
    nights.now += 15 * HOUR
    job = nights.submit(nights.tick()[0])
    nights.now += DAY
    assert nights.tick() == []
    assert nights.states()[1] == ("03 02:00", RunState.DUE)
    nights.ledger.complete(job.id)
    (claim,) = nights.tick()
    assert nights.run(claim).job_name == "reviews-2027-06-03"


@pytest.mark.parametrize("kind", KINDS)
def test_or_takes_the_place_of_the_old_one(nights):
    nights.add(overlap=Overlap.CANCEL)
    nights.now += 15 * HOUR
    old = nights.submit(nights.tick()[0])
    nights.now += DAY
    assert len(nights.tick()) == 1
    assert [state for _, state in nights.states()] == [RunState.CANCELLED, RunState.BEGUN]
    assert find_job(nights.database, old.id).state is JobState.CANCELLED


def test_a_run_that_was_being_submitted_is_cancelled_too_and_makes_no_job(nights):
    nights.add(overlap=Overlap.CANCEL)
    nights.now += 15 * HOUR
    (old,) = nights.tick()
    nights.now += DAY - 1
    assert nights.runs.renew(old, 60.0)
    nights.now += 1
    assert len(nights.tick()) == 1
    with pytest.raises(RefusedError, match="cancelled"):
        nights.submit(old)
    assert list_jobs(nights.database) == []


@pytest.mark.parametrize("kind", KINDS)
def test_what_dies_between_the_record_and_the_job_is_begun_again_and_its_ghost_makes_no_job(nights):
    nights.add()
    nights.now += 15 * HOUR
    (dead,) = nights.tick()
    nights.now += LEASE_S - 1
    assert nights.tick() == []
    nights.now += 1
    (claim,) = nights.tick()
    assert (claim.run_id, claim.attempts) == (dead.run_id, 2)
    assert not nights.runs.renew(dead, 60.0)
    with pytest.raises(RefusedError, match="another process"):
        nights.submit(dead)
    job = nights.submit(claim)
    assert [found.id for found in list_jobs(nights.database)] == [job.id]


def test_what_dies_once_there_is_a_job_is_gone_on_with_and_gets_no_second_one(nights):
    nights.add()
    nights.now += 15 * HOUR
    (dead,) = nights.tick()
    job = nights.ledger.create_job("reviews", SPEC, "", "", "", run=dead)
    with pytest.raises(RefusedError):
        nights.ledger.create_job("reviews again", SPEC, "", "", "", run=dead)
    nights.now += LEASE_S
    (claim,) = nights.tick()
    assert nights.run(claim).job_id == job.id
    assert [found.name for found in list_jobs(nights.database)] == ["reviews"]


def test_a_moments_fault_puts_a_run_off(nights):
    nights.add()
    nights.now += 15 * HOUR
    nights.runs.postpone(nights.tick()[0], 90.0, "The disk is full.")
    nights.now += 89
    assert nights.tick() == []
    nights.now += 1
    assert [claim.attempts for claim in nights.tick()] == [2]


def test_times_of_a_paused_schedule_do_not_count(nights):
    schedule = nights.add()
    nights.schedules.pause(schedule)
    nights.now += 3 * DAY
    assert nights.tick() == []
    nights.schedules.resume(schedule, nights.now + HOUR)
    nights.now += HOUR
    assert len(nights.tick()) == 1
    assert len(nights.states()) == 1


def test_a_job_that_is_deleted_holds_up_no_later_night(nights):
    nights.add()
    nights.now += 15 * HOUR
    (claim,) = nights.tick()
    job = nights.ledger.create_job("reviews", SPEC, "", "", "", fleet=True, run=claim)
    nights.runs.hand_over(claim)
    nights.ledger.discard(job.id)
    nights.now += DAY
    assert len(nights.tick()) == 1
    assert nights.notes()[0] == "Its job was deleted before it was done."


def test_a_name_that_is_taken_gets_a_number(nights):
    nights.add("0 2,3 * * *")
    nights.ledger.create_job("reviews-2027-06-02", "{}", "", "", "")
    names = []
    for _ in range(2):
        nights.now += 14.5 * HOUR if not names else HOUR
        (claim,) = nights.tick()
        names.append(nights.run(claim).job_name)
        nights.runs.end(claim, RunState.DONE)
    assert names == ["reviews-2027-06-02-2", "reviews-2027-06-02-3"]


def test_a_run_that_failed_is_done_once_a_person_saw_to_its_job(nights):
    nights.add()
    nights.now += 15 * HOUR
    (claim,) = nights.tick()
    job = nights.ledger.create_job("reviews", SPEC, "", "", "", run=claim)
    nights.runs.end(claim, RunState.FAILED, "The model does not load.")
    nights.tick()
    assert nights.states() == [("02 02:00", RunState.FAILED)]
    nights.ledger.finish_cutting(job.id, 0)
    nights.ledger.complete(job.id)
    nights.tick()
    assert (nights.states(), nights.notes()) == ([("02 02:00", RunState.DONE)], [None])


def test_many_missed_times_are_told_up_to_a_bound(nights):
    nights.add("* * * * *", grace_s=HOUR)
    nights.now += 120 * 60.0
    assert len(nights.tick()) == 1
    assert len(nights.states()) == 51
    assert str(nights.notes()[0]).endswith(" 69 before it were too.")
