"""Where stage 1 gets its table from, whatever a job names: files and streams, or a SELECT on a database."""

from pipeline.ingest.inputs import Source, resolve, resolve_selected
from pipeline.spec import JobSpec


def source_of(spec: JobSpec, source_url: str | None) -> Source:
    """The job's own URL has no password; `source_url` is used where it is the same but for one.

    Raises SpecError, InputError or TryAgain.
    """
    if spec.sql is None:
        return resolve(spec.inputs)
    # Its library takes a while to import, which a mistyped column should not wait for.
    from pipeline.store.selection import Selection, with_password

    return resolve_selected(Selection(with_password(spec.inputs[0], source_url), spec.sql))
