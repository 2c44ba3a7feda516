"""A batch file's groups as jobs, one after the other, and their results merged into its output, in its order."""

import heapq
import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from jobs import exit_codes
from jobs.batch_files import BatchFiles
from jobs.manner import Manner
from jobs.new_job import submit_job
from jobs.session import Session
from jobs.tables import counted
from pipeline.errors import ModelError, SpecError
from pipeline.job_file import place
from pipeline.openai.body import Fields
from pipeline.openai.endpoints import CONTENT, PROMPTS, Usual
from pipeline.openai.groups import Group, digest, sort_batch
from pipeline.openai.requests import Refusal
from pipeline.openai.responses import error_line, output_line
from pipeline.openai.sorted_batches import sorted_batches
from pipeline.prompts.limits import CUTTING
from pipeline.rows import Completion, Status
from pipeline.settings import Settings
from pipeline.source import source_of
from pipeline.spec import build_spec
from pipeline.store.database import Database
from pipeline.store.queries import find_job, read_results
from pipeline.store.records import JobRecord
from pipeline.store.target_file import opened_target

#: Results of a group that are in memory at once.
_PAGE = 500

Line = tuple[int, bytes, bool]  #: its place in the batch file, what is written, and whether it is an answer


def answer_batch(
    settings: Settings, files: BatchFiles, manner: Manner, *, model: str, name: str | None, usual: Usual
) -> int:
    """The exit status. Raises SpecError or ModelError for what no line could be answered with."""
    found = digest(files.batch, usual)
    name = name or f"batch-{digest(files.batch, usual, model)[:10]}"
    session = Session.open(settings)
    sorted_batch = sort_batch(files.batch, sorted_batches(settings.make_home()) / found, usual)
    # What is wrong with a flag is no fault of the lines, and the longest name is that of the last group.
    build_spec(_fixed(files.batch, model, f"{name}-{len(sorted_batch.groups)}") | {"messages_column": CONTENT})
    sources, faults = [_refused(sorted_batch.refusals)], list[SpecError | ModelError]()
    for number, group in enumerate(sorted_batch.groups, 1):
        try:
            spec = build_spec(_fixed(group.rows, model, f"{name}-{number}") | group.terms.fields)
            status = submit_job(settings, spec, source_of(spec, None), manner)
        except (SpecError, ModelError) as error:
            faults.append(error)
            sources.append(_refused([_faulty(line, custom_id, error) for line, custom_id, _ in group.requests()]))
            continue
        if status not in (exit_codes.OK, exit_codes.ALL_ROWS_FAILED):
            return status
        sources.append(_answered(session.database, find_job(session.database, str(spec.name)), group, model))
    of_model = [fault for fault in faults if isinstance(fault, ModelError)]
    if of_model and len(faults) == len(sorted_batch.groups):
        raise of_model[0]
    return _write(session, files, heapq.merge(*sources))


def _fixed(rows: Path, model: str, name: str) -> Fields:
    """What all groups have in common, as fields of a job."""
    return place({"inputs": str(rows), "model": model, "name": name, "key": "key"}, Path.cwd())


def _faulty(line: int, custom_id: str, error: SpecError | ModelError) -> Refusal:
    """Parameters go by their own names in it, and not by those of flags."""
    if isinstance(error, ModelError):
        return Refusal(line, custom_id, "model", str(error))
    message = re.sub("--([a-z]+(?:-[a-z]+)*)", lambda flag: flag[1].replace("-", "_"), str(error))
    return Refusal(line, custom_id, "invalid_parameter", message)


def _refused(refusals: list[Refusal]) -> Iterator[Line]:
    for refusal in refusals:
        yield refusal.line, error_line(refusal, f"line-{refusal.line}"), False


def _answered(database: Database, job: JobRecord, group: Group, model: str) -> Iterator[Line]:
    """A request is answered where all of its prompts are."""
    results = _results(database, job)
    for line, custom_id, prompts in group.requests():
        answers = list(islice(results, prompts))
        assert [answer.key for answer in answers] == [f"{line}.{number}" for number in range(prompts)]
        request_id = f"{job.id}-{answers[0].row_id}"
        failed = (n for n, answer in enumerate(answers) if answer.status not in (Status.OK, Status.TRUNCATED))
        if (place := next(failed, None)) is None:
            created = int(job.submitted_at)
            yield line, output_line(custom_id, group.terms, model, created, request_id, answers), True
        else:
            why, field = answers[place], PROMPTS[group.terms.url]
            message = (f"{field}[{place}]: " if prompts > 1 else "") + (why.error or "It was cancelled.")
            refusal = Refusal(line, custom_id, why.error_type or why.status, message.replace(CUTTING, ""))
            yield line, error_line(refusal, request_id), False


def _results(database: Database, job: JobRecord) -> Iterator[Completion]:
    """A page at a time, so that many groups can be merged over few connections."""
    for start in range(0, job.n_rows or 0, _PAGE):
        yield from read_results(database, job.id, range(start, start + _PAGE))


def _write(session: Session, files: BatchFiles, lines: Iterator[Line]) -> int:
    answers = errors = 0
    with opened_target(files.output) as output, opened_target(files.errors) as refused:
        for _, line, is_answer in lines:
            (output if is_answer else refused).write(line)
            answers, errors = answers + is_answer, errors + (not is_answer)
    session.notes.print(
        f"{counted(answers, 'answer')} written to {files.output}, {counted(errors, 'error')} to {files.errors}.",
        soft_wrap=True,
    )
    return exit_codes.OK if answers else exit_codes.ALL_ROWS_FAILED
