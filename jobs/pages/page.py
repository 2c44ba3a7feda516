"""The templates, filled: whatever a job's texts hold is shown as text, and a page asks for nothing but itself."""

from collections.abc import Mapping
from datetime import UTC, datetime
from importlib.metadata import version

from jinja2 import Environment, PackageLoader, StrictUndefined

from jobs.bottleneck import bottleneck
from jobs.pages.facts import facts
from jobs.pages.figures import figures
from jobs.reuse import why_reuse_differs
from jobs.standing import Standing
from jobs.status import sentence
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
        figures=list(figures(course)),
        errors=course.errors,
        texts=texts,
        refresh_s=refresh_s,
        overview=overview,
        made_at=datetime.now(UTC).isoformat(sep=" ", timespec="seconds").removesuffix("+00:00"),
        version=version("pipeline"),
    )
