"""How this program talks to PostgreSQL: over connections that notice when either end is gone."""

from sqlalchemy import URL, Connection, Engine, create_engine, event, text

from pipeline.errors import JobError
from pipeline.store.transactions import database_name

#: By libpq's names, unless the URL says otherwise. A server whose machine is gone is noticed within half a minute.
CONNECTION = {
    "application_name": "pipeline",
    "client_encoding": "utf8",
    "connect_timeout": 10,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
}

#: How long others wait for a process that stands still amid its changes, as one does that a signal stopped.
STANDSTILL_S = 30.0

#: Any number, so that no two processes migrate at once: the letters "pipeline".
_MIGRATING = int.from_bytes(b"pipeline")


def connect_postgresql(url: URL, busy_timeout_s: float) -> Engine:
    """Through psycopg 3, whichever driver the URL names."""
    engine = create_engine(
        url.set(drivername="postgresql+psycopg"),
        connect_args={name: value for name, value in CONNECTION.items() if name not in url.query},
        isolation_level="READ COMMITTED",
        # They are what people's rows say, and errors end in logs.
        hide_parameters=True,
        pool_pre_ping=True,
        # A fleet has many processes, a server takes a hundred connections as a rule: each process keeps one.
        pool_size=1,
    )
    limits = text("SELECT set_config('lock_timeout', :lock, true), set_config(:idle_name, :idle, true)").bindparams(
        lock=f"{busy_timeout_s:.3f}s",
        idle_name="idle_in_transaction_session_timeout",
        idle=f"{STANDSTILL_S:.3f}s",
    )

    @event.listens_for(engine, "begin")
    def limit(connection: Connection) -> None:
        if connection.get_execution_options().get("writes"):
            connection.execute(limits)

    return engine


def prepare_to_migrate(connection: Connection) -> None:
    """One process at a time, until its transaction ends. Raises JobError where not every text could be kept."""
    connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _MIGRATING})
    encoding = connection.scalar(text("SHOW server_encoding"))
    # SQL_ASCII keeps bytes as they come, and ours are UTF-8.
    if encoding not in ("UTF8", "SQL_ASCII"):
        raise JobError(
            f"The database {database_name(connection.engine)} keeps text as {encoding}, which has not every letter. "
            "Create another one with ENCODING 'UTF8' and name it in PIPELINE_DATABASE_URL."
        )
