"""A batch file's groups as jobs, one after the other, and their results merged into its output, in its order."""

import heapq
from collections.abc import Iterator
from pathlib import Path

from jobs import exit_codes
from jobs.batch_files import BatchFiles
from jobs.manner import Manner
from jobs.new_job import submit_job
from jobs.session import Session
from jobs.tables import counted
from pipeline.errors import SpecError
from pipeline.job_file import place
from pipeline.openai.groups import Group, digest, sort_batch
from pipeline.openai.requests import Fields, Refusal
from pipeline.openai.responses import error_line, output_line
from pipeline.rows import Completion
from pipeline.settings import Settings
from pipeline.source import source_of
from pipeline.spec import build_spec
from pipeline.store.database import Database
from pipeline.store.export import opened_target
from pipeline.store.queries import find_job, read_results
from pipeline.store.records import JobRecord

#: Results of a group that are in memory at once.
_PAGE = 500

Line = tuple[int, bytes, bool]  #: its place in the batch file, what is written, and whether it is an answer


def answer_batch(
    settings: Settings, files: BatchFiles, manner: Manner, *, model: str, name: str | None, max_tokens: int
) -> int:
    """The exit status. Raises SpecError for what no line could be answered with."""
    found = digest(files.batch, max_tokens)
    name = name or f"batch-{digest(files.batch, max_tokens, model)[:10]}"
    sorted_batch = sort_batch(files.batch, settings.make_home() / "batches" / found, max_tokens)
    # What is wrong with a flag is no fault of the lines, and the longest name is that of the last group.
    build_spec(_fixed(files.batch, model, f"{name}-{len(sorted_batch.groups)}"))
    sources = [_refused(sorted_batch.refusals)]
    for number, group in enumerate(sorted_batch.groups, 1):
        try:
            spec = build_spec(_fixed(group.rows, model, f"{name}-{number}") | group.fields)
        except SpecError as error:
            sources.append(_refused([_invalid(line, custom_id, error) for line, custom_id in group.custom_ids()]))
            continue
        status = submit_job(settings, spec, source_of(spec, None), manner)
        if status not in (exit_codes.OK, exit_codes.ALL_ROWS_FAILED):
            return status
        database = Session.open(settings).database
        sources.append(_answered(database, find_job(database, str(spec.name)), group, model))
    return _write(settings, files, heapq.merge(*sources))


def _fixed(rows: Path, model: str, name: str) -> Fields:
    """What all groups have in common, as fields of a job."""
    fields = {"inputs": str(rows), "model": model, "name": name, "prompt": "{content}", "key": "line"}
    return place(fields, Path.cwd())


def _invalid(line: int, custom_id: str, error: SpecError) -> Refusal:
    return Refusal(line, custom_id, "invalid_parameter", str(error))


def _refused(refusals: list[Refusal]) -> Iterator[Line]:
    for refusal in refusals:
        yield refusal.line, error_line(refusal, f"line-{refusal.line}"), False


def _answered(database: Database, job: JobRecord, group: Group, model: str) -> Iterator[Line]:
    for (line, custom_id), result in zip(group.custom_ids(), _results(database, job), strict=True):
        assert result.key == str(line)
        request_id = f"{job.id}-{result.row_id}"
        if result.error_type is None and result.output is not None:
            created = int(job.submitted_at)
            yield line, output_line(custom_id, group.url, model, created, request_id, result), True
        else:
            why = Refusal(line, custom_id, result.error_type or result.status, result.error or "It was cancelled.")
            yield line, error_line(why, request_id), False


def _results(database: Database, job: JobRecord) -> Iterator[Completion]:
    """A page at a time, so that many groups can be merged over few connections."""
    for start in range(0, job.n_rows or 0, _PAGE):
        yield from read_results(database, job.id, range(start, start + _PAGE))


def _write(settings: Settings, files: BatchFiles, lines: Iterator[Line]) -> int:
    answers = errors = 0
    with opened_target(files.output) as output, opened_target(files.errors) as refused:
        for _, line, is_answer in lines:
            (output if is_answer else refused).write(line)
            answers, errors = answers + is_answer, errors + (not is_answer)
    Session.open(settings).notes.print(
        f"{counted(answers, 'answer')} written to {files.output}, {counted(errors, 'error')} to {files.errors}.",
        soft_wrap=True,
    )
    return exit_codes.OK if answers else exit_codes.ALL_ROWS_FAILED
