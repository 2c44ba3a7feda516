"""A job's first rows, batched as the job would batch them and answered under a profiler. Records nothing."""

from collections.abc import Sequence
from dataclasses import replace

from pipeline.buckets import batch_rows, plan
from pipeline.excerpt import encode_excerpt
from pipeline.inference.profiling import Profile, profile
from pipeline.means import Means
from pipeline.prefix_tree import additions, with_cuts
from pipeline.rows import Batch, Generate, Row
from pipeline.settings import Settings
from pipeline.spec import JobSpec

#: Tokens an answer may have here: enough to see where each one's time goes.
MAX_TOKENS = 32


def profile_job(spec: JobSpec, means: Means, rows: Sequence[Row], settings: Settings) -> Profile:
    """Raises SpecError where no row can be answered at all."""
    excerpt = encode_excerpt(spec, means, rows)
    prompts = with_cuts(excerpt.prompts, means.costs, excerpt.task, settings.batch_rows)
    planned = plan(
        [(prompt.row_id, len(prompt.own_ids)) for prompt in prompts],
        max_rows=batch_rows(excerpt.task, settings.batch_rows),
        max_tokens=settings.batch_tokens,
        together=additions(prompts),
    )
    by_id = {prompt.row_id: prompt for prompt in prompts}
    batches = [
        Batch("profile", number, 0, 1, excerpt.prefix, tuple(by_id[row_id] for row_id in batch.row_ids))
        for number, batch in enumerate(planned)
    ]
    task = excerpt.task
    if isinstance(task, Generate):
        task = replace(task, max_tokens=min(task.max_tokens, MAX_TOKENS))
    return profile(means.model, batches, task, means.vocabulary.decode, settings.prefix_bytes)
