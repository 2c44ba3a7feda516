"""Whether a job may take over answers of an earlier one, or asks in another way, so that all rows are answered anew."""

from pipeline.inference.ends_digest import is_of_ends
from pipeline.spec import HARMLESS, JobSpec
from pipeline.store.records import JobRecord

#: Fields that decide which rows there are, and not what is answered to each: a seed, where no tokens are drawn, too.
_ROWS = frozenset({"inputs", "sql", "key", "where", "sample", "limit", "seed"})
_WEIGHTS = frozenset({"model", "adapter"})


def asks_anew(spec: JobSpec, model_digest: str | None, before: JobRecord) -> str | None:
    """A sentence on what has changed since `before`; None where nothing has that an answer hangs on. Without a digest
    the model goes by its name."""
    changed = _changed(spec, model_digest, before)
    if not changed:
        return None
    what, have = " and ".join(changed), "have" if len(changed) > 1 or changed[0].endswith("s") else "has"
    return f"{what[:1].upper()}{what[1:]} {have} changed since the last run, {before.name}: all rows are answered anew."


def _changed(spec: JobSpec, model_digest: str | None, before: JobRecord) -> list[str]:
    mine = spec.model_dump(mode="json", exclude={*HARMLESS, *_ROWS})
    theirs = JobSpec.model_validate_json(before.spec_json).model_dump(mode="json")
    fields = [field for field in mine if mine[field] != theirs[field]]
    named = [f"the {field.replace('_', ' ')}" for field in fields]
    if model_digest is None:
        return named
    asked = [name for field, name in zip(fields, named, strict=True) if field not in _WEIGHTS]
    if model_digest == before.model_digest:
        return asked
    unnamed = "the way models are told apart" if is_of_ends(before.model_digest) else "the model's files"
    return asked + ([name for name in named if name not in asked] or [unnamed])
