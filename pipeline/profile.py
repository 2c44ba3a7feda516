"""A job's first rows, batched as the job would batch them and answered under a profiler. Records nothing."""

from collections.abc import Sequence
from dataclasses import replace

from pipeline.buckets import budget
from pipeline.encoding import grouped
from pipeline.excerpt import encode_excerpt
from pipeline.inference.profiling import Profile, profile
from pipeline.means import Means
from pipeline.rows import Batch, Generate, Row, Task, changed
from pipeline.settings import Settings
from pipeline.spec import JobSpec

#: Tokens an answer may have here: enough to see where each one's time goes.
MAX_TOKENS = 32


def profile_job(spec: JobSpec, means: Means, rows: Sequence[Row], settings: Settings) -> Profile:
    """Raises SpecError where no row can be answered at all."""
    excerpt = encode_excerpt(spec, means.vocabulary, means.model.context, rows)
    groups = grouped(excerpt.prompts, means.costs, excerpt.task, budget(settings, None))
    batches = [Batch("profile", number, 0, 1, excerpt.prefix, prompts) for number, (_, prompts) in enumerate(groups)]
    task = changed(excerpt.task, _shortened)
    return profile(
        means.model, batches, task, means.vocabulary.decode, settings.prefix_bytes, constraints=means.constraints
    )


def _shortened(task: Task) -> Task:
    return replace(task, max_tokens=min(task.max_tokens, MAX_TOKENS)) if isinstance(task, Generate) else task
