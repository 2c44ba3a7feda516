import pytest

from jobs.bottleneck import bottleneck
from pipeline.store.queries import STAGES
from pipeline.store.records import Progress


def went(active_s=100.0, **seconds):
    whole = dict.fromkeys(STAGES, 0.0) | seconds
    return Progress(total=9, ok=9, seconds=whole, started_at=100.0, finished_at=100.0 + active_s)


@pytest.mark.parametrize(
    ("seconds", "told"),
    [
        (
            {"decode": 60.0, "prefill": 40.0},
            "60% of the work was decode. Writing answers took most: a lower --max-tokens",
        ),
        ({"decode": 20.0, "prefill": 80.0}, "80% of the work was prefill. Reading prompts took most"),
        ({"encode": 50.0, "decode": 40.0}, "56% of the work was encode. Rows were turned into tokens more slowly"),
        ({"record": 90.0, "decode": 10.0}, "90% of the work was record. The database took most"),
    ],
)
def test_the_largest_stage_is_told_with_what_helps(seconds, told):
    assert bottleneck(went(**seconds), fleet=False).startswith(told)


def test_what_took_no_time_brings_no_advice():
    told = bottleneck(went(active_s=0.7, prefix=0.4, decode=0.2, queue=0.5), fleet=True)
    assert told == "67% of the work was prefix, 0.4 s: too little for a change to be worth it."


def test_a_run_that_stood_still_is_not_blamed_on_a_stage():
    told = bottleneck(went(active_s=3600.0, decode=60.0), fleet=False)
    assert told.startswith("Of the 1:00:00 from its first batch to its last, only 1:00 were work: it stood still")


def test_a_wait_in_the_queue_is_no_work_and_tells_whether_more_workers_help():
    assert "longer for a worker than they took, so more GPU" in bottleneck(went(decode=90.0, queue=900.0), fleet=True)
    assert "hardly waited for a worker" in bottleneck(went(decode=90.0, queue=1.0), fleet=True)
    assert "worker" not in bottleneck(went(decode=90.0, queue=900.0), fleet=False)


def test_of_nothing_there_is_nothing_to_tell():
    assert bottleneck(Progress(total=None), fleet=False).startswith("Nothing was answered yet")
