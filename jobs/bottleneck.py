"""What limited a run, in a sentence: read off how long each stage took, and what would have made it quicker."""

from collections.abc import Mapping

from jobs.tables import duration
from pipeline.store.records import Progress

#: Share of the whole time in which nothing happened, from which on that is what is told.
_STOOD_STILL = 0.5
#: Seconds in which a run is too short to be judged.
_SHORT_S = 1.0
#: Seconds below which nobody gains by advice.
_WORTH_S = 10.0

_ADVICE = {
    "encode": "Rows were turned into tokens more slowly than the model answered them: more tokenizer processes, or a "
    "shorter template, would help.",
    "load": "Messages took longer to be read than rows to be answered: a broker or a disk nearer to the workers would "
    "help.",
    "prefix": "Computing what prompts share took most: larger batches, or more memory for prefixes "
    "(PIPELINE_PREFIX_BYTES), would help.",
    "prefill": "Reading prompts took most: shorter prompts, or columns ordered so that rows share more of them (see "
    "--dry-run), would help; so would more or faster devices.",
    "decode": "Writing answers took most: a lower --max-tokens, or --choices where a label is enough, would help; so "
    "would more or faster devices.",
    "detokenize": "Turning answers into text took most: fewer log-probabilities (--logprobs) would help.",
    "record": "The database took most: a faster disk under it, or PostgreSQL instead of SQLite, would help.",
}


def bottleneck(figures: Progress, *, fleet: bool) -> str:
    """Of a fleet, also whether the batches waited for workers or workers for batches."""
    worked = {stage: seconds for stage, seconds in figures.seconds.items() if stage != "queue"}
    total_s = sum(worked.values())
    if not total_s or figures.started_at is None or figures.finished_at is None:
        return "Nothing was answered yet, so there is nothing to tell of its speed."
    active_s = figures.finished_at - figures.started_at
    if active_s > _SHORT_S and total_s < (1 - _STOOD_STILL) * active_s:
        return (
            f"Of the {duration(active_s)} from its first batch to its last, only {duration(total_s)} were work: it "
            "stood still for the rest, stopped, paused, or waiting for its input, its model or other jobs."
        )
    stage = max(worked, key=worked.__getitem__)
    share = f"{worked[stage] / total_s:.0%} of the work was {stage}"
    sentence = (
        f"{share}. {_ADVICE[stage]}"
        if worked[stage] >= _WORTH_S
        else f"{share}, {duration(worked[stage])}: too little for a change to be worth it."
    )
    waited = fleet and max(figures.seconds["queue"], worked[stage]) >= _WORTH_S
    return f"{sentence} {_queue(figures, worked)}" if waited else sentence


def _queue(figures: Progress, worked: Mapping[str, float]) -> str:
    waited_s, answered_s = figures.seconds["queue"], sum(worked.values()) - worked["encode"]
    if waited_s > answered_s:
        return "Batches waited longer for a worker than they took, so more GPU workers would have made it quicker."
    return "Batches hardly waited for a worker, so more GPU workers alone would not have made it much quicker."
