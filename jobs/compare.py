"""`pipeline compare`: what became of the same rows in another job, with another prompt or model."""

import json
from pathlib import Path

import click

from jobs.output_format import by_suffix
from jobs.tables import Column, counted, print_table
from pipeline.errors import SpecError
from pipeline.settings import Settings
from pipeline.store.agreement import Agreement, ChangedRows, agreement
from pipeline.store.database import existing_database
from pipeline.store.purged import require_results
from pipeline.store.queries import find_job
from pipeline.store.records import JobRecord
from pipeline.store.row_files import write_rows


@click.command(short_help="Compare two jobs' answers to the same keys.")
@click.argument("first", metavar="JOB_A")
@click.argument("second", metavar="JOB_B")
@click.option("--changed", is_flag=True, help="With --output: write the rows that differ, side by side.")
@click.option("--output", type=click.Path(path_type=Path), metavar="FILE", help=".csv, .jsonl or .parquet.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def compare(first: str, second: str, changed: bool, output: Path | None, as_json: bool) -> None:
    """Compare the answers of JOB_A and JOB_B by their keys: how many rows changed in status, label or text, how far
    labels agree beyond chance (Cohen's kappa), and which label became which. Of scored texts it tells the mean change
    in their log-probability; vectors are not compared.

    \b
    Examples:
      pipeline compare moods moods-2
      pipeline compare moods moods-2 --changed --output changed.csv
    """
    if changed != (output is not None):
        raise SpecError("--changed writes the rows that differ into a file; give it and --output FILE together.")
    file_format = None if output is None else by_suffix(output)
    database = existing_database(Settings.from_environment())
    one, other = find_job(database, first), find_job(database, second)
    for job in (one, other):
        require_results(job)
    found = agreement(database, one, other)
    if as_json:
        click.echo(json.dumps(_as_json(one, other, found), indent=2, ensure_ascii=False))
    else:
        _tell(one, other, found)
    if output is not None and file_format is not None:
        n_rows = write_rows(ChangedRows(database, one, other), file_format, output)
        click.echo(f"{counted(n_rows, 'row')} written to {output}", err=as_json)


def _as_json(one: JobRecord, other: JobRecord, found: Agreement) -> dict[str, object]:
    return {
        "first": one.name,
        "second": other.name,
        "rows": {"both": found.both, "only_first": found.only_first, "only_second": found.only_second},
        "changed": {"any": found.changed, "status": found.status, "label": found.label, "text": found.text},
        "agreement": found.share,
        "kappa": found.kappa,
        "mean_score_change": found.score_change,
        "mean_logprob_change": found.logprob_change,
        "confusion": [
            {"first": labels[0], "second": labels[1], "rows": rows} for labels, rows in sorted(found.confusion.items())
        ],
    }


def _tell(one: JobRecord, other: JobRecord, found: Agreement) -> None:
    if one.id == other.id:
        click.echo(f"Both are the same job, {one.name}, which is compared with itself.", err=True)
    click.echo(f"{one.name} and {other.name} have results for {counted(found.both, 'key')} in common.\n")
    lines = {
        f"only in {one.name}": f"{found.only_first:,}",
        f"only in {other.name}": f"{found.only_second:,}",
        "changed": f"{found.changed:,} (status {found.status:,}, label {found.label:,}, text {found.text:,})",
        "agreement": "" if found.share is None else f"{found.share:.1%}",
        "kappa": "" if found.kappa is None else f"{found.kappa:.3f}",
        "mean score change": "" if found.score_change is None else f"{found.score_change:+.4f}",
        "mean logprob change": "" if found.logprob_change is None else f"{found.logprob_change:+.4f}",
    }
    told = {name: text for name, text in lines.items() if text}
    width = max(map(len, told)) + 2
    for name, text in told.items():
        click.echo(f"{name:<{width}}{text}")
    if found.confusion:
        click.echo()
        _print_confusion(found)


def _print_confusion(found: Agreement) -> None:
    """The first job's labels down, the second's across."""
    rows, columns = (sorted({pair[side] for pair in found.confusion}) for side in (0, 1))
    print_table(
        [Column("FROM / TO"), *(Column(label, "number") for label in columns)],
        [[row, *(f"{found.confusion.get((row, column), 0):,}" for column in columns)] for row in rows],
    )
