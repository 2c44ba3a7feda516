"""`pipeline submit`: a table and a prompt become a job, which is answered here and now, or by a fleet."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from jobs.announcement import same_for_all
from jobs.manner import Manner, manner_flags
from pipeline.errors import SpecError
from pipeline.examples import read_examples
from pipeline.ingest.inputs import Source, is_input
from pipeline.ingest.paths import require_columns
from pipeline.job_file import place, read_job_file
from pipeline.prompts.cut_column import column_to_cut
from pipeline.prompts.shapes import columns_of, shape_of, told_of
from pipeline.settings import Settings
from pipeline.source import source_of
from pipeline.spec import JobSpec, build_spec


@click.command(short_help="Answer every row of a table.")
@click.argument("inputs", nargs=-1, metavar="INPUT...")
@click.option(
    "--job",
    "job_file",
    type=click.Path(path_type=Path),
    help="YAML file with these fields, messages or questions; flags win over it.",
)
@click.option("--sql", metavar="SELECT", help="The rows are those of this statement, or of @FILE, on --from.")
@click.option("--from", "database", metavar="URL", help="Database that --sql reads; its password is never kept.")
@click.option("--prompt", help="TEXT or @FILE, with {column} placeholders; {{ and }} for braces.")
@click.option(
    "--examples", metavar="FILE", help="Few-shots before the prompt: a table of its columns and one named answer."
)
@click.option(
    "--messages-column", metavar="COLUMN", help="Each row's chat, as a list of role and content, in place of --prompt."
)
@click.option(
    "--tokens-column", metavar="COLUMN", help="Each row's prompt as token ids, with --raw, in place of --prompt."
)
@click.option(
    "--template-var",
    "template_vars",
    multiple=True,
    metavar="NAME=JSON",
    help="For the chat template, such as enable_thinking=false; may be given several times.",
)
@click.option("--tools", metavar="FILE", help="JSON list of functions that the chat template tells the model of.")
@click.option("--model", help="Hub id, directory, FILE.gguf, or smollm2-135m (the small model that comes along).")
@click.option("--adapter", metavar="DIR", help="LoRA weights that the model is answered with: directory or hub id.")
@click.option("--system", help="System message for the model's chat template.")
@click.option("--raw/--chat", default=None, help="Plain completion of the prompt, or the chat template (default).")
@click.option("--choices", metavar="A,B,...", help="Pick the likeliest of these labels instead of writing text.")
@click.option(
    "--length-normalize",
    is_flag=True,
    default=None,
    help="Compare labels by the mean log-probability of their tokens; one may then begin another.",
)
@click.option("--multi-label", is_flag=True, default=None, help="Ask for each label by itself: any number may hold.")
@click.option(
    "--prior-correction",
    is_flag=True,
    default=None,
    help="Divide out how likely each label is after a prompt with N/A in every column.",
)
@click.option("--score", metavar="COLUMN", help="Tell how likely this column's text is after the prompt.")
@click.option(
    "--embed", metavar="POOLING", help="Turn the prompt into a vector: of its last token, or the mean of all."
)
@click.option("--json-schema", metavar="FILE", help="Hold answers to this JSON schema while they are written.")
@click.option("--regex", metavar="TEXT", help="Hold answers to this regular expression, from end to end.")
@click.option(
    "--grammar", metavar="FILE", help="Hold answers to this grammar, in llguidance's form of Lark or in GBNF."
)
@click.option("--max-tokens", type=int, help="Tokens an answer may have.  [default: 256]")
@click.option("--stop", multiple=True, help="Text before which an answer ends; may be given several times.")
@click.option("--temperature", type=float, help="0 takes the likeliest token; above, tokens are drawn.  [default: 0]")
@click.option("--top-k", type=int, metavar="N", help="Draw among the N likeliest tokens.")
@click.option("--top-p", type=float, metavar="P", help="Draw among the fewest tokens that have probability P together.")
@click.option("--min-p", type=float, metavar="P", help="Draw among tokens at least P times as likely as the likeliest.")
@click.option("--repetition-penalty", type=float, help="Over 1: less of what prompt or answer hold.  [default: 1]")
@click.option("--presence-penalty", type=float, help="-2 to 2; over 0: less of what the answer holds.  [default: 0]")
@click.option("--frequency-penalty", type=float, help="The same, each time that the answer holds it.  [default: 0]")
@click.option("--seed", type=int, help="Other numbers to draw by; the same give the same answers.  [default: 0]")
@click.option("--n", type=int, metavar="N", help="Draw N answers to each row, up to 64.  [default: 1]")
@click.option("--logprobs", type=int, metavar="K", help="Record each token's log-probability, and the K likeliest's.")
@click.option("--on-too-long", metavar="HOW", help="error, or keep head, tail, middle, salient.  [default: error]")
@click.option("--cut", metavar="COLUMN", help="The column that is cut, where the prompt has several.")
@click.option("--normalize", metavar="FORM", help="Bring the columns' text into Unicode's form nfc or nfkc.")
@click.option("--strip-invisible", is_flag=True, default=None, help="Take out what has no width, and controls.")
@click.option("--unescape-html", is_flag=True, default=None, help="Turn entities such as &amp; into characters, once.")
@click.option("--key", metavar="COLUMN", help="Your id for a row: unique, never null.  [default: the row's number]")
@click.option("--name", help="Name of the job.  [default: one with today's date]")
@click.option(
    "--where",
    metavar="EXPR",
    help="Only rows of which this is true: stars >= 4 and lang in ('en', 'de') and not (text is null or a.b like 'x%')",
)
@click.option("--sample", metavar="N|P%", help="Only so many rows, or such a share, drawn by --seed; before --limit.")
@click.option("--limit", type=int, metavar="N", help="Only the first N rows.")
@click.option("--output", metavar="FILE", help="Also write the results there: .parquet, .csv or .jsonl.")
@click.option(
    "--dtype",
    metavar="TYPE",
    help="float32, bfloat16, float16, or auto: bfloat16 where the device computes it natively.  [default: auto]",
)
@click.option(
    "--deterministic",
    is_flag=True,
    default=None,
    help="The same answers to the last bit whatever rows are answered together; on a CPU in float32.",
)
@click.option(
    "--dedupe/--no-dedupe",
    default=None,
    help="Answer rows of the same prompt once, unless tokens are drawn (default), or each by itself.",
)
@click.option(
    "--keep-order", is_flag=True, default=None, help="Answer rows in the input's order, also where sorting them pays."
)
@click.option(
    "--reuse-results",
    is_flag=True,
    default=None,
    help="Copy answers that any job has already to the same prompt, from the same model, asked for in the same way.",
)
@click.option("--trust-remote-code", is_flag=True, default=None, help="Run Python code that comes with the model.")
@click.option("--priority", type=int, metavar="N", help="In a fleet, jobs of a higher one go first.  [default: 0]")
@click.option(
    "--dry-run",
    "only_dry_run",
    is_flag=True,
    help="Check everything, show the first prompts and an estimate; record nothing.",
)
@manner_flags
def submit(
    inputs: tuple[str, ...],
    job_file: Path | None,
    only_dry_run: bool,
    wait: bool,
    here: bool,
    as_json: bool,
    **flags: Any,
) -> None:
    """Answer every row of INPUT (Parquet, Arrow, CSV, TSV, JSONL or text files; directories, patterns, their s3:// or
    gs:// URLs, or - for JSONL on standard input).

    Where there is a fleet, it answers them, and this returns as soon as the input is read; otherwise this process does.

    \b
    Example:
      pipeline submit examples/reviews.parquet --model smollm2-135m --raw \\
          --prompt @examples/sentiment.txt --choices positive,negative
    """
    spec, source_url = asked_spec(inputs, job_file, flags)
    require_place(spec.output)
    settings = Settings.from_environment()
    settings = replace(settings, source_url=source_url or settings.source_url)
    source = checked_source(settings, spec)
    if (warning := same_for_all(spec, source.columns())) is not None:
        click.echo(f"Warning: {warning}", err=True)
    act = _dry_run if only_dry_run else _submit
    click.get_current_context().exit(act(settings, spec, source, Manner(wait, here, as_json)))


def _dry_run(settings: Settings, spec: JobSpec, source: Source, _: Manner) -> int:
    # torch takes seconds to import; a mistyped column is told before.
    from jobs.dry_run import dry_run

    return dry_run(settings, spec, source)


def _submit(settings: Settings, spec: JobSpec, source: Source, manner: Manner) -> int:
    # Less, but a while too.
    from jobs.new_job import submit_job

    return submit_job(settings, spec, source, manner)


def checked_source(settings: Settings, spec: JobSpec) -> Source:
    """Its rows, in which all columns are that the job names. Raises SpecError, InputError or TryAgain."""
    if spec.output is not None and is_input(spec.inputs, spec.output):
        raise SpecError(f"The output {spec.output} is an input of this job, which would be lost. Give another file.")
    source = source_of(spec, settings.source_url)
    require_job_columns(spec, source)
    return source


def require_job_columns(spec: JobSpec, source: Source) -> None:
    """Raises SpecError or InputError for a column that is not there."""
    for number, asked in enumerate(spec.asked):
        with told_of(spec, number):
            column_to_cut(asked, shape_of(asked))
    require_columns(source.schema, [*columns_of(spec), *([spec.key] if spec.key else [])])


def asked_spec(inputs: tuple[str, ...], job_file: Path | None, flags: dict[str, Any]) -> tuple[JobSpec, str | None]:
    """Flags over fields of the job file; and a database's URL with the password that it must not be kept with.

    Raises SpecError.
    """
    given = {name: value for name, value in flags.items() if value is not None and value != ()}
    database = given.pop("database", None)
    if inputs and database is not None:
        raise SpecError("INPUT and --from are two sources of rows. Give one of them.")
    if inputs or database is not None:
        given["inputs"] = list(inputs) or [database]
    known = read_job_file(job_file) if job_file else {}
    placed = place(given, Path.cwd())
    if "prompt" in given:  # of whatever kind it is
        kind = known.pop("template", "plain")
        if known.get("questions") and "prompt" in known and placed.get("template", "plain") != kind:
            raise SpecError(
                "The job file's questions go on with its own prompt, so --prompt must be a Jinja template (.j2) where "
                "that is one, and otherwise none."
            )
    fields = known | placed
    if isinstance(examples := fields.get("examples"), str):
        fields["examples"] = read_examples(examples)
    if database is not None and "sql" not in fields:
        raise SpecError("--from needs --sql, the SELECT that gives the rows.")
    match fields:
        case {"sql": str(), "inputs": [str(url)]} if "://" in url:
            # Its library takes a while to import.
            from pipeline.store.selection import without_password

            kept = without_password(url)
            return build_spec(fields | {"inputs": [kept]}), url if url != kept else None
    return build_spec(fields), None


def require_place(output: Path | None) -> None:
    """Raises SpecError or JobError now; the file itself is written when all is answered, which may be hours later."""
    if output is None:
        return
    if not output.parent.is_dir():
        raise SpecError(f"--output cannot be written: there is no directory {output.parent}. Make it first.")
    if output.is_dir():
        raise SpecError(f"--output cannot be written: {output} is a directory. Name a file in it.")
    # The database's library takes a while to import, which a mistyped flag should not wait for.
    from pipeline.store.target_file import require_target

    require_target(output)
