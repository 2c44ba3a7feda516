"""Whether a job may take over answers of an earlier one, or asks in another way, so that all rows are answered anew."""

from pipeline.spec import HARMLESS, JobSpec
from pipeline.store.records import JobRecord

#: Fields that decide which rows there are, and not what is answered to each.
_ROWS = frozenset({"inputs", "sql", "key", "where", "sample", "limit"})


def asks_anew(spec: JobSpec, model_digest: str | None, before: JobRecord) -> str | None:
    """A sentence on what has changed since `before`; None where nothing has that an answer hangs on. Without a digest
    the model is taken to be as it was."""
    mine = spec.model_dump(mode="json", exclude={*HARMLESS, *_ROWS})
    theirs = JobSpec.model_validate_json(before.spec_json).model_dump(mode="json")
    changed = [f"its {field.replace('_', ' ')}" for field in mine if mine[field] != theirs[field]]
    if not changed and model_digest is not None and model_digest != before.model_digest:
        changed.append(f"the files of the model{' or of its adapter' if spec.adapter else ''}")
    if not changed:
        return None
    what, have = " and ".join(changed), "has" if len(changed) == 1 and changed[0].startswith("its") else "have"
    return f"{what[:1].upper()}{what[1:]} {have} changed since the last run, {before.name}: all rows are answered anew."
