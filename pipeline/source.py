"""Where stage 1 gets its table from, whatever a job names: files and streams, or a SELECT; and which rows it takes."""

from dataclasses import replace

from pipeline.errors import SpecError
from pipeline.ingest.condition import Condition
from pipeline.ingest.inputs import Source, resolve, resolve_selected
from pipeline.ingest.taking import Taking
from pipeline.spec import JobSpec


def source_of(spec: JobSpec, source_url: str | None) -> Source:
    """The job's own URL has no password; `source_url` is used where it is the same but for one.

    Raises SpecError, InputError or TryAgain.
    """
    source = _table(spec, source_url)
    if spec.where is None and spec.sample is None:
        return source
    if source.is_stream and spec.sample_count is not None:
        raise SpecError(
            f"--sample {spec.sample} reads its input twice, and standard input can be read only once. "
            "Give a share, such as --sample 10%, or write it to a file first."
        )
    condition = Condition.parse(spec.where, source.schema) if spec.where is not None else None
    return replace(source, taking=Taking(condition, spec.sample_count, spec.sample_share, spec.seed))


def _table(spec: JobSpec, source_url: str | None) -> Source:
    if spec.sql is None:
        return resolve(spec.inputs)
    # Its library takes a while to import, which a mistyped column should not wait for.
    from pipeline.store.selection import Selection, with_password

    return resolve_selected(Selection(with_password(spec.inputs[0], source_url), spec.sql))
