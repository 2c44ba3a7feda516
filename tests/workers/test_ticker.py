"""Times of schedules that have come, over nights on which the clock changes, and nights on which nobody was there."""

import threading
from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from pipeline.store.notices import Notices
from pipeline.store.queries import list_jobs
from pipeline.store.schedule_records import Event, RunClaim, RunState
from pipeline.store.schedule_runs import NewRun
from tests.workers.nights import DAY, HOUR, KINDS, LEASE_S, SPEC, Nights


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
    assert nights.notes()[0] == "Nobody was there to start it, and the one of 2027-06-03 02:00 was skipped too."
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
    nights.schedules.pause(as_seen)
    assert nights.schedules.resume(as_seen, as_seen.next_at)
    assert nights.tick() == []
    assert nights.states() == [("02 02:00", RunState.BEGUN)]


def test_times_of_a_paused_schedule_do_not_count(nights):
    schedule = nights.add()
    nights.schedules.pause(schedule)
    nights.now += 3 * DAY
    assert not nights.runs.record(schedule, [NewRun(schedule.next_at, "as it was seen before")], schedule.next_at + DAY)
    assert nights.tick() == []
    assert nights.states() == []
    nights.schedules.resume(schedule, nights.now + HOUR)
    nights.now += HOUR
    assert len(nights.tick()) == 1
    assert len(nights.states()) == 1


def test_many_missed_times_are_told_up_to_a_bound(nights):
    nights.add("* * * * *", grace_s=HOUR)
    nights.now += 120 * 60.0
    assert len(nights.tick()) == 1
    assert len(nights.states()) == 51
    assert str(nights.notes()[0]).endswith(" 69 before it were too.")


@pytest.mark.parametrize("kind", KINDS)
def test_a_time_that_has_come_stays_where_the_job_is_read_again_or_what_is_not_paused_is_resumed(nights):
    schedule = nights.add()
    nights.at("2027-06-02T02:03")
    assert not nights.schedules.resume(schedule, schedule.next_at + DAY)
    nights.schedules.replace(replace(schedule, id="other", job_name="read-again", next_at=schedule.next_at + DAY))
    (claim,) = nights.tick()
    assert (nights.run(claim).job_name, nights.states()) == ("read-again", [("02 02:00", RunState.BEGUN)])


def test_of_another_cron_line_only_times_from_then_on_count(nights):
    schedule = nights.add()
    nights.at("2027-06-02T02:03")
    nights.schedules.replace(replace(schedule, cron="0 4 * * *", next_at=nights.now + HOUR))
    assert nights.tick() == []
    assert nights.states() == []


@pytest.mark.parametrize("kind", KINDS)
def test_of_a_paused_schedule_nothing_is_started_but_what_has_its_job_goes_on(nights):
    schedule = nights.add()
    nights.now += 15 * HOUR
    assert nights.ticker.tick(LEASE_S, most=0) == []
    nights.schedules.pause(schedule)
    assert nights.tick() == []
    assert nights.states() == [("02 02:00", RunState.DUE)]
    nights.schedules.resume(schedule, nights.now + DAY)
    (dead,) = nights.tick()
    job = nights.ledger.create_job("reviews", SPEC, "", "", "", run=dead)
    nights.schedules.pause(schedule)
    nights.ledger.finish_cutting(job.id, 0)
    nights.ledger.complete(job.id)
    assert Notices(nights.database, nights.clock).claim(1.0) is None
    nights.now += LEASE_S
    (claim,) = nights.tick()
    assert nights.run(claim).job_id == job.id
    nights.runs.end(claim, RunState.DONE)
    assert Notices(nights.database, nights.clock).claim(1.0) is not None
