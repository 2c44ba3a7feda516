"""The texts of rows that failed, as their shards have them, for a report that was asked to show them."""

from collections import defaultdict
from collections.abc import Iterable

from pipeline.ingest.rows import read_rows
from pipeline.prompts.shapes import shape_of
from pipeline.spec import JobSpec
from pipeline.store.course import Course
from pipeline.store.database import Database
from pipeline.store.queries import list_shards
from pipeline.store.records import JobRecord, ShardRecord

#: More of a text is seldom read, and a row may hold a book.
_CHARACTERS = 2000


def texts_of(database: Database, job: JobRecord, course: Course) -> dict[int, dict[str, str]]:
    """By row, the columns that its prompt uses. Raises InputError or TryAgain where a shard cannot be read."""
    spec = JobSpec.model_validate_json(job.spec_json)
    names = list(dict.fromkeys([*shape_of(spec).columns, *spec.beside]))
    found = {}
    for shard, row_ids in _by_shard(list_shards(database, job.id), _row_ids(course)):
        for row in read_rows(shard.path, shard.row_from, columns=names, key=None, row_ids=row_ids):
            found[row.row_id] = {name: _cut(value) for name, value in row.values.items()}
    return found


def _row_ids(course: Course) -> list[int]:
    return [sample.row_id for kind in course.errors for sample in kind.samples]


def _by_shard(shards: Iterable[ShardRecord], row_ids: Iterable[int]) -> list[tuple[ShardRecord, list[int]]]:
    homes: defaultdict[ShardRecord, list[int]] = defaultdict(list)
    every = list(shards)
    for row_id in row_ids:
        homes[next(shard for shard in every if row_id in shard.rows)].append(row_id)
    return list(homes.items())


def _cut(value: object) -> str:
    text = "null" if value is None else str(value)
    return text if len(text) <= _CHARACTERS else f"{text[:_CHARACTERS]}… ({len(text):,} characters)"
