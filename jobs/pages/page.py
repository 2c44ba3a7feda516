"""The templates, filled: whatever a job's texts hold is shown as text, and a page asks for nothing but itself."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import version

from jinja2 import Environment, PackageLoader, StrictUndefined

from jobs.bottleneck import bottleneck
from jobs.fleet_shown import workers_table
from jobs.pages.facts import facts
from jobs.pages.figures import figures
from jobs.pages.plot import number
from jobs.reuse import why_reuse_differs
from jobs.standing import Standing
from jobs.status import sentence
from jobs.tables import counted
from pipeline.store.course import Course

#: Of each row, the columns that its prompt uses.
Texts = Mapping[int, Mapping[str, str]]

_TEMPLATES = Environment(
    loader=PackageLoader("jobs.pages"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=False,
    lstrip_blocks=False,
)


def report_page(
    found: Standing,
    course: Course,
    *,
    texts: Texts | None = None,
    refresh_s: int | None = None,
    overview: str | None = None,
) -> str:
    """`texts` of the rows that failed are shown where they are given; `overview` is a link to all jobs."""
    remarks = [why_reuse_differs(found), found.in_fleet and found.in_fleet.held_up, found.job.error]
    return _TEMPLATES.get_template("report.html.j2").render(
        name=found.job.name,
        sentence=sentence(found),
        bottleneck=bottleneck(course.figures, fleet=found.job.fleet),
        remarks=[remark for remark in remarks if remark],
        facts=list(facts(found)),
        figures=list(figures(course, found.job.predicted_reuse)),
        errors=course.errors,
        texts=texts,
        refresh_s=refresh_s,
        overview=overview,
        workers=_workers(found),
        made_at=_moment(datetime.now(UTC).timestamp()),
        version=version("pipeline"),
    )


def jobs_page(standings: Sequence[Standing], left_out: int, database: str, refresh_s: int | None) -> str:
    """Each with a link to its report, and how many older ones are left out; `database` is told to those who have
    several."""
    jobs = [
        {
            "id": found.job.id,
            "name": found.job.name,
            "state": found.state,
            "rows": f"{found.recorded:,}/{'?' if found.figures.total is None else f'{found.figures.total:,}'}",
            "errors": f"{found.figures.error:,}",
            "rate": "" if found.rows_per_s is None else number(found.rows_per_s),
            "submitted": _moment(found.job.submitted_at),
        }
        for found in standings
    ]
    older = counted(left_out, "older job") if left_out else ""
    return _TEMPLATES.get_template("jobs.html.j2").render(
        jobs=jobs, older=older, database=database, refresh_s=refresh_s
    )


def message_page(title: str, message: str) -> str:
    """In place of a page that there is none of."""
    return _TEMPLATES.get_template("message.html.j2").render(title=title, message=message, refresh_s=None)


def _workers(found: Standing) -> tuple[list[str], list[list[str]]] | None:
    """Of a job that a fleet is at: a table of who works in it."""
    if found.in_fleet is None or not found.in_fleet.fleet.workers:
        return None
    columns, rows = workers_table(found.in_fleet.fleet, found.in_fleet.names)
    return [column.name.lower() for column in columns], rows


def _moment(seconds: float) -> str:
    """In UTC."""
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S}"
