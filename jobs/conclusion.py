"""The end of a job that is done: its output file, where one was asked for, and its summary."""

from jobs import exit_codes
from jobs.session import Session
from jobs.summary import print_summary
from pipeline.spec import OUTPUT_FORMATS, JobSpec
from pipeline.store.differences import count_differences
from pipeline.store.export import export
from pipeline.store.records import JobRecord
from pipeline.store.schedule_runs import ScheduleRuns


def conclude(session: Session, job: JobRecord, spec: JobSpec, *, as_json: bool) -> int:
    """The exit status."""
    if spec.output is not None:
        n_rows = export(session.database, job, OUTPUT_FORMATS[spec.output.suffix.lower()], spec.output)
        session.notes.print(f"{n_rows} rows written to {spec.output}", soft_wrap=True)
    ScheduleRuns(session.database).mend(job)
    count_differences(session.database, job.id)
    print_summary(session.settings, session.database, job, spec, as_json=as_json)
    figures = session.figures(job)
    answered = figures.ok + figures.truncated
    return exit_codes.OK if answered else exit_codes.ALL_ROWS_FAILED
