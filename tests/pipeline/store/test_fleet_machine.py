"""Whatever happens to a fleet's job, in whatever order: every row has one place, and in the end one result."""

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test
from sqlalchemy import Engine

from pipeline.buckets import PlannedBatch
from pipeline.rows import BatchTiming, Follower
from pipeline.store.dispatch import Dispatch
from pipeline.store.integrity import check_integrity
from pipeline.store.ledger import Ledger
from pipeline.store.queries import find_job, list_shards, progress
from pipeline.store.records import Claim, JobState

N_ROWS, SHARD_ROWS = 7, 4
#: The row that kills whoever answers it.
DEADLY = 2
#: Rows of the second shard with the prompt of one of the first.
SAME = {4: 0, 6: DEADLY}
owners = st.sampled_from(["a", "b"])
places = st.integers(0, 9)


class Fleet(RuleBasedStateMachine):
    """Messages are never taken away, so each may come late, twice, or not at all."""

    def __init__(self, engine: Engine, clock, road) -> None:
        super().__init__()
        self.engine, self.clock, self.road = engine, clock, road
        self.ledger, self.dispatch = Ledger(engine, clock), Dispatch(engine, road.keys, clock)
        self.job_id = road.job(N_ROWS, SHARD_ROWS, fleet=True).id
        self.shard_messages, self.batch_messages, self.claims, self.begun = [], [], [], set()

    @property
    def state(self):
        return find_job(self.engine, self.job_id).state

    @rule(most=st.integers(0, 3))
    def enqueue(self, most):
        self.shard_messages += self.dispatch.enqueue_shards(most)
        self.batch_messages += [(bell.job_id, bell.batch_no) for bell in self.dispatch.enqueue_batches(most)]

    @precondition(lambda self: self.shard_messages)
    @rule(place=places, owner=owners, dies=st.booleans(), size=st.integers(1, 3))
    def hear_of_a_shard(self, place, owner, dies, size):
        job_id, shard_no = self.shard_messages[place % len(self.shard_messages)]
        claim = self.ledger.claim_shard(job_id, shard_no, owner, 60)
        if claim and not dies:
            self.encode(shard_no, size)

    def encode(self, shard_no, size):
        shard = list_shards(self.engine, self.job_id)[shard_no]
        rows = range(shard.row_from, shard.row_to)
        hashes = {row_id: bytes([SAME.get(row_id, row_id)]) * 16 for row_id in rows}
        leaders = self.ledger.lead(self.job_id, shard_no, {hashes[row_id]: row_id for row_id in rows})
        left = [row_id for row_id in rows if hashes[row_id] not in leaders]
        planned = [PlannedBatch(tuple(left[first : first + size]), 9) for first in range(0, len(left), size)]
        waiting = [Follower(row, f"k{row}", 0, leaders[hashes[row]]) for row in rows if row not in left]
        self.ledger.record_encoding(self.job_id, shard_no, planned, [], 0.1, tokens="/tokens", followers=waiting)

    @precondition(lambda self: self.batch_messages)
    @rule(place=places, owner=owners)
    def hear_of_a_batch(self, place, owner):
        job_id, batch_no = self.batch_messages[place % len(self.batch_messages)]
        if claim := self.ledger.claim_batch(job_id, batch_no, owner, 60):
            self.claims.append((claim, owner))

    @rule(owner=owners)
    def claim_the_lowest(self, owner):
        if claim := self.ledger.claim(self.job_id, owner, 60):
            self.claims.append((claim, owner))

    @precondition(lambda self: self.claims)
    @rule(place=places)
    def begin(self, place):
        claim, _ = self.claims[place % len(self.claims)]
        if self.ledger.begin(claim):
            self.begun.add(claim)

    @precondition(lambda self: self.claims)
    @rule(place=places, failed=st.booleans())
    def finish(self, place, failed):
        """Also of claims that were lost long ago."""
        claim, _ = self.claims[place % len(self.claims)]
        if claim in self.begun and DEADLY not in claim.row_ids:
            self.close(claim, failed)

    def close(self, claim: Claim, failed=False):
        outcomes = self.road.outcomes(claim, errors=claim.row_ids[:1] if failed else [])
        return self.ledger.finish(claim, outcomes, BatchTiming(), "cpu")

    @precondition(lambda self: self.claims)
    @rule(place=places)
    def give_back(self, place):
        self.ledger.give_back(self.claims[place % len(self.claims)][0])

    @rule()
    def renew(self):
        self.ledger.renew_all([claim for claim, _ in self.claims], 60)

    @rule(owner=owners)
    def die(self, owner):
        self.ledger.died(owner, "killed by signal 9 (SIGKILL)")

    @rule(seconds=st.sampled_from([1, 31, 61]))
    def pass_time(self, seconds):
        self.clock.now += seconds

    @rule()
    def recover(self):
        self.dispatch.recover(30)

    @rule()
    def lose_all(self):
        self.dispatch.lose_all()

    @rule()
    def complete(self):
        self.dispatch.complete_jobs()

    @rule()
    def pause(self):
        if self.state is JobState.RUNNING:
            self.ledger.pause(self.job_id)

    @rule()
    def unpause(self):
        self.ledger.unpause(self.job_id)

    @rule(fleet=st.booleans())
    def take_over(self, fleet):
        self.ledger.take_over(self.job_id, fleet)

    @rule(revived=st.booleans())
    def cancel_or_revive(self, revived):
        if self.state is JobState.CANCELLED:
            self.ledger.revive(self.job_id)
        elif self.state is not JobState.DONE:
            self.ledger.cancel(self.job_id, self.road.keys)
            if revived:
                self.ledger.revive(self.job_id)

    @rule()
    def retry(self):
        if self.state is not JobState.CANCELLED:
            self.ledger.retry_errors(self.job_id, 3)

    @invariant()
    def every_row_has_one_place(self):
        assert check_integrity(self.engine, self.job_id) == []

    def teardown(self):
        """The job is brought to its end, which must not take long."""
        if self.state is JobState.CANCELLED:
            self.ledger.revive(self.job_id)
        self.ledger.take_over(self.job_id, True)
        for _ in range(30):
            if self.state is JobState.DONE:
                break
            self.work()
        assert self.state is JobState.DONE
        told = progress(self.engine, self.job_id)
        assert told.finished == told.recorded == N_ROWS
        assert check_integrity(self.engine, self.job_id) == []

    def work(self):
        self.clock.now += 61
        self.ledger.unpause(self.job_id)
        self.dispatch.recover(30)
        for job_id, shard_no in self.dispatch.enqueue_shards(9):
            if self.ledger.claim_shard(job_id, shard_no, "last", 60):
                self.encode(shard_no, 3)
        for bell in self.dispatch.enqueue_batches(9):
            claim = self.ledger.claim_batch(bell.job_id, bell.batch_no, "last", 60)
            assert self.ledger.begin(claim)
            if DEADLY in claim.row_ids:
                self.ledger.died("last", "killed by signal 9 (SIGKILL)")
            else:
                assert self.close(claim)
        self.dispatch.complete_jobs()


@pytest.mark.parametrize("database_url", ["sqlite", "postgresql"], indirect=True)
def test_whatever_happens_every_row_ends_with_one_result(engine, clock, road):
    run_state_machine_as_test(
        lambda: Fleet(engine, clock, road),
        settings=settings(
            max_examples=6, stateful_step_count=20, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )
