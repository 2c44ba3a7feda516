"""`pipeline doctor`: whether this machine can run jobs, a line for each thing that they need."""

import json
from dataclasses import asdict

import click

from jobs import exit_codes
from jobs.checks import Finding, examine
from pipeline.settings import Settings


@click.command(short_help="Check this machine, and tell how to mend it.")
@click.option("--quick", is_flag=True, help="Leave out the job of two rows that shows that answers are right.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def doctor(quick: bool, as_json: bool) -> None:
    """Check this machine: each line is ok, or tells how to mend it. The exit status is 1 unless all are ok.

    \b
    Example:
      pipeline doctor
    """
    findings = examine(Settings.from_environment(), quick=quick)
    well = all(finding.ok for finding in findings)
    if as_json:
        document = {"ok": well, "checks": [asdict(finding) for finding in findings]}
        click.echo(json.dumps(document, indent=2, ensure_ascii=False))
    else:
        for finding in findings:
            click.echo(_line(finding))
    click.get_current_context().exit(exit_codes.OK if well else exit_codes.FAILED)


def _line(finding: Finding) -> str:
    return f"{'ok' if finding.ok else 'MEND':<6}{finding.name:<10}{finding.text}"
