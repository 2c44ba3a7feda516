"""`pipeline migrate`: what every command does on its first use of an older database, done by itself."""

import click

from pipeline.settings import Settings
from pipeline.store.database import migrate as bring_up_to_date


@click.command(short_help="Bring the database up to date.")
def migrate() -> None:
    """Bring the database up to date with this version of the program; a new one is made where there is none.

    \b
    Example:
      pipeline migrate
    """
    before, after = bring_up_to_date(Settings.from_environment())
    if before == after:
        click.echo(f"The database is up to date: version {after}.")
    else:
        click.echo(f"The database went from {'empty' if before is None else f'version {before}'} to version {after}.")
