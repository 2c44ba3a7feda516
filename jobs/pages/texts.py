"""The texts of rows that failed, as the input had them, for a report that was asked to show them."""

from collections import defaultdict
from collections.abc import Iterable, Sequence

from pipeline.ingest.rows import read_rows
from pipeline.prompts.shapes import columns_of
from pipeline.spec import JobSpec
from pipeline.store.course import Course
from pipeline.store.database import Database
from pipeline.store.queries import list_pages
from pipeline.store.records import JobRecord, PageRecord

#: More of a text is seldom read, and a row may hold a book.
_CHARACTERS = 2000


def texts_of(database: Database, job: JobRecord, course: Course) -> dict[int, dict[str, str]]:
    """By row, the columns that its prompt uses. Raises InputError or TryAgain where a file of them cannot be read."""
    names, count = columns_of(JobSpec.model_validate_json(job.spec_json)), job.n_questions
    found: dict[int, dict[str, str]] = {}
    for page, row_ids in _by_page(list_pages(database, job.id), _row_ids(course)):
        wanted = {row_id // count for row_id in row_ids}
        rows = read_rows(page.path, page.row_from // count, columns=names, key=None, row_ids=wanted)
        texts = {row.row_id: {name: _cut(value) for name, value in row.values.items()} for row in rows}
        found |= {row_id: texts[row_id // count] for row_id in row_ids}
    return found


def _row_ids(course: Course) -> list[int]:
    return [sample.row_id for kind in course.errors for sample in kind.samples]


def _by_page(pages: Sequence[PageRecord], row_ids: Iterable[int]) -> list[tuple[PageRecord, list[int]]]:
    homes: defaultdict[PageRecord, list[int]] = defaultdict(list)
    for row_id in row_ids:
        homes[next(page for page in pages if row_id in page.rows)].append(row_id)
    return list(homes.items())


def _cut(value: object) -> str:
    text = "null" if value is None else str(value)
    return text if len(text) <= _CHARACTERS else f"{text[:_CHARACTERS]}… ({len(text):,} characters)"
