"""Brings the tables up to date. Kept apart, because nothing else needs Alembic."""

from pathlib import Path

from alembic import command
from alembic.config import Config
from sqlalchemy import Connection

import migrations
from pipeline.store.views import create_views, drop_views


def upgrade(connection: Connection) -> None:
    """Run what is missing, in the transaction that the connection is in. The views stand aside: no database changes a
    table in every way while a view shows it."""
    drop_views(connection)
    command.upgrade(configuration(connection), "head")
    create_views(connection)


def configuration(connection: Connection) -> Config:
    """Alembic's view of the migrations; there is no alembic.ini, so that an installed program can migrate too."""
    config = Config(attributes={"connection": connection})
    config.set_main_option("script_location", str(Path(migrations.__path__[0])).replace("%", "%%"))
    return config
