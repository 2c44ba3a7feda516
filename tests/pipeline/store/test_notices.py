"""The outbox of notices: which ends of a job are told, when, and by whom."""

import threading
from contextlib import suppress
from dataclasses import replace

import pytest

from pipeline.errors import RefusedError
from pipeline.store.notices import Notices
from pipeline.store.records import JobRecord
from pipeline.store.schedule_records import Event, NoticeRecord, Overlap, RunState, ScheduleRecord
from pipeline.store.schedule_runs import ScheduleRuns
from pipeline.store.schedules import Schedules

SPEC = '{"notify": {"command": "true"}}'
LEASE_S = 60.0
KINDS = ["sqlite", "postgresql"]


@pytest.fixture
def kind() -> str:
    return "sqlite"


@pytest.fixture
def database_url(request, kind) -> str:
    return str(request.getfixturevalue(f"ready_{kind}_url"))


@pytest.fixture
def notices(engine, clock) -> Notices:
    return Notices(engine, clock)


@pytest.fixture
def job(ledger) -> JobRecord:
    """That is running and has nothing to do."""
    job = ledger.create_job("night", SPEC, "", "", "")
    ledger.finish_cutting(job.id, 0)
    return job


def due(notices: Notices) -> list[NoticeRecord]:
    found = []
    while (notice := notices.claim(LEASE_S)) is not None:
        found.append(notice)
        notices.close(notice, None)
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_each_end_is_told_once(ledger, clock, notices, job):
    ends = {
        Event.PAUSED: lambda: ledger.pause(job.id),
        Event.CANCELLED: lambda: ledger.cancel(job.id, lambda shard: []),
        Event.FAILED: lambda: ledger.fail_note(job.id, "The disk is full."),
        Event.DONE: lambda: ledger.complete(job.id),
    }
    back = {Event.PAUSED: ledger.unpause, Event.CANCELLED: ledger.revive}
    for event, end in ends.items():
        clock.now += 1
        end()
        if event is not Event.FAILED:
            with suppress(RefusedError):
                end()
        assert [(found.event, found.job_id, found.occurred_at) for found in due(notices)] == [
            (event, job.id, clock.now)
        ]
        back.get(event, lambda job_id: None)(job.id)


def test_a_fleets_reason_to_pause_is_a_failure(ledger, notices, job):
    ledger.pause(job.id, "The model does not load.")
    assert [found.event for found in due(notices)] == [Event.FAILED]


def test_nobody_is_told_who_does_not_want_to(ledger, notices):
    job = ledger.create_job("quiet", '{"notify": null}', "", "", "")
    ledger.cancel(job.id, lambda shard: [])
    assert due(notices) == []


def test_a_sender_that_dies_leaves_its_notice_to_another(ledger, clock, notices, job):
    ledger.complete(job.id)
    first = notices.claim(LEASE_S)
    assert notices.claim(LEASE_S) is None
    clock.now += LEASE_S
    again = notices.claim(LEASE_S)
    assert first is not None
    assert again == replace(first, lease_until=clock.now)


@pytest.mark.parametrize("kind", KINDS)
def test_of_several_senders_at_once_each_notice_has_one(ledger, engine, clock):
    for _ in range(12):
        job = ledger.create_job(None, SPEC, "", "", "")
        ledger.cancel(job.id, lambda shard: [])
    found: list[str] = []

    def take() -> None:
        mine = Notices(engine, clock)
        found.extend(notice.id for notice in (mine.claim(LEASE_S) for _ in range(24)) if notice is not None)

    senders = [threading.Thread(target=take) for _ in range(4)]
    for sender in senders:
        sender.start()
    for sender in senders:
        sender.join()
    assert len(found) == len(set(found)) == 12


def test_what_could_not_be_sent_is_told_until_a_later_one_could(ledger, clock, notices, job):
    ledger.pause(job.id, "Why.")
    notices.close(notices.claim(LEASE_S), "It answered with status 500.")
    assert notices.unsent(job_id=job.id) == "It answered with status 500."
    assert due(notices) == []
    clock.now += 1
    ledger.unpause(job.id)
    ledger.complete(job.id)
    due(notices)
    assert notices.unsent(job_id=job.id) is None


@pytest.mark.parametrize("kind", KINDS)
def test_the_end_of_a_schedules_job_is_told_once_its_run_is_over(ledger, engine, clock, notices):
    runs = ScheduleRuns(engine, clock)
    night = ScheduleRecord("s", "n", "0 2 * * *", "UTC", SPEC, "n", "n.yaml", 1.0, Overlap.SKIP, False, 0.0, clock.now)
    Schedules(engine, clock).add(night)
    claim = runs.claim(runs.record_now(night, "n"), LEASE_S)
    assert claim is not None
    job = ledger.create_job("n", SPEC, "", "", "", run=claim)
    ledger.fail_note(job.id, "It is told with the run.")
    ledger.finish_cutting(job.id, 0)
    ledger.complete(job.id)
    assert notices.claim(LEASE_S) is None
    runs.end(claim, RunState.DONE)
    assert [(found.event, found.job_id) for found in due(notices)] == [(Event.DONE, job.id)]


@pytest.mark.parametrize("kind", KINDS)
def test_a_run_that_fails_is_told_with_its_job_or_without(ledger, engine, clock, notices):
    runs = ScheduleRuns(engine, clock)
    night = ScheduleRecord("s", "n", "0 2 * * *", "UTC", SPEC, "n", "n.yaml", 1.0, Overlap.SKIP, False, 0.0, clock.now)
    Schedules(engine, clock).add(night)
    run = runs.record_now(night, "n")
    claim = runs.claim(run, LEASE_S)
    assert claim is not None
    runs.end(claim, RunState.FAILED, "There is no input.")
    runs.end(claim, RunState.FAILED, "Twice is once.")
    assert [(found.event, found.job_id, found.run_id) for found in due(notices)] == [(Event.FAILED, None, run.id)]
    other = runs.claim(runs.record_now(night, "n"), LEASE_S)
    assert other is None  # of the same moment
    clock.now += 1
    later = runs.claim(runs.record_now(night, "n"), LEASE_S)
    assert later is not None
    job = ledger.create_job("n", SPEC, "", "", "", run=later)
    runs.end(later, RunState.DONE)
    ledger.cancel(job.id, lambda shard: [])
    notices.close(notices.claim(LEASE_S), "It answered with status 500.")
    assert notices.unsent(run_id=later.run_id, job_id=job.id) == "It answered with status 500."
    assert notices.unsent(run_id=run.id) is None
