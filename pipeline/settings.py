"""Where things lie and how long they may take: one frozen object, read from PIPELINE_* and OTEL_* once per process."""

import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pipeline.errors import JobError, SpecError

LOG_FORMATS = ("text", "json")


@dataclass(frozen=True, slots=True)
class Settings:
    """Passed by argument from the command down; nothing else reads the environment."""

    home: Path = Path(".pipeline")  #: PIPELINE_HOME: shards, the tokenizers' copies, the default database
    #: PIPELINE_DATABASE_URL, which may hold a password
    database_url: str = field(default="sqlite:///.pipeline/pipeline.db", repr=False)
    device: str = "auto"  #: PIPELINE_DEVICE: auto, cpu, cuda, cuda:1
    shard_rows: int = 4096  #: PIPELINE_SHARD_ROWS: rows in one Parquet shard
    batch_rows: int = 128  #: PIPELINE_BATCH_ROWS: rows in one batch at most
    batch_tokens: int = 8192  #: PIPELINE_BATCH_TOKENS: own prompt tokens in one batch at most
    lease_s: float = 60.0  #: PIPELINE_LEASE_S: a batch whose worker is silent for so long is given to another
    prefix_bytes: int = 2 << 30  #: PIPELINE_PREFIX_BYTES: keys and values of shared prefixes in the device's memory
    prefix_host_bytes: int = 8 << 30  #: PIPELINE_PREFIX_HOST_BYTES: of these in the host's, where a GPU computes
    prefix_disk_bytes: int = 8 << 30  #: PIPELINE_PREFIX_DISK_BYTES: of these on disk; 0 keeps none there
    prefix_ttl_s: float = 14 * 86400.0  #: PIPELINE_PREFIX_TTL_S: after so long without use they are forgotten
    #: PIPELINE_BROKER_URL, which may hold a password: the Redis of a fleet
    broker_url: str | None = field(default=None, repr=False)
    shards: str | None = None  #: PIPELINE_SHARDS: a directory, or the URL of one, that all machines see; None: at home
    #: PIPELINE_SOURCE_URL, which may hold a password: the database that --sql reads, where the job's own URL has none
    source_url: str | None = field(default=None, repr=False)
    #: PIPELINE_TARGET_URL, which may hold a password: the database that an export writes to, as source_url is read
    target_url: str | None = field(default=None, repr=False)
    lost_after_s: float = 60.0  #: PIPELINE_LOST_AFTER_S: what the broker was told of and nobody took is told again
    batch_seconds: float = 10.0  #: PIPELINE_BATCH_SECONDS: what a batch of a fleet should take
    log_format: str = "text"  #: PIPELINE_LOG_FORMAT: how the processes of a fleet write their lines, of LOG_FORMATS
    #: PIPELINE_UI_TOKEN: what whoever looks at `pipeline ui` must know
    ui_token: str | None = field(default=None, repr=False)
    metrics_port: int | None = None  #: PIPELINE_METRICS_PORT: where a process of a fleet serves its metrics
    traces: bool = False  #: OTEL_EXPORTER_OTLP_ENDPOINT says where they go, and OTEL_SDK_DISABLED does not forbid it

    def make_home(self) -> Path:
        """The home directory, there now and writable. Raises JobError where that cannot be."""
        home = self.home.absolute()
        try:
            home.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=home):
                return home
        except OSError as error:
            raise JobError(
                f"The directory {home} cannot be written to: {error.strerror}. "
                "Set PIPELINE_HOME to a directory that you may write to."
            ) from error

    def shard_directory(self, job_id: str) -> str:
        """Where a job's input lies once it is cut: an absolute path, or a URL."""
        shards = self.shards or str(self.home / "jobs")
        if "://" not in shards:
            return str(Path(shards, job_id, "shards").absolute())
        folder, mark, options = shards.partition("?")
        return f"{folder.rstrip('/')}/{job_id}/shards{mark}{options}"

    def required_broker_url(self) -> str:
        """Raises SpecError where there is none."""
        if self.broker_url is None:
            raise SpecError(
                "PIPELINE_BROKER_URL is not set. Write the Redis of the fleet into it, such as redis://host:6379/0; "
                "on one machine, `pipeline up` runs a fleet with one of its own."
            )
        return self.broker_url

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> "Settings":
        """Raises SpecError for a number that is none or is too small."""
        usual = cls()
        home = Path(environment.get("PIPELINE_HOME", str(usual.home)))
        return cls(
            home=home,
            database_url=environment.get("PIPELINE_DATABASE_URL", f"sqlite:///{home / 'pipeline.db'}"),
            device=environment.get("PIPELINE_DEVICE", usual.device),
            shard_rows=_whole(environment, "PIPELINE_SHARD_ROWS", usual.shard_rows),
            batch_rows=_whole(environment, "PIPELINE_BATCH_ROWS", usual.batch_rows),
            batch_tokens=_whole(environment, "PIPELINE_BATCH_TOKENS", usual.batch_tokens),
            lease_s=float(_whole(environment, "PIPELINE_LEASE_S", int(usual.lease_s))),
            prefix_bytes=_whole(environment, "PIPELINE_PREFIX_BYTES", usual.prefix_bytes),
            prefix_host_bytes=_whole(environment, "PIPELINE_PREFIX_HOST_BYTES", usual.prefix_host_bytes, least=0),
            prefix_disk_bytes=_whole(environment, "PIPELINE_PREFIX_DISK_BYTES", usual.prefix_disk_bytes, least=0),
            prefix_ttl_s=float(_whole(environment, "PIPELINE_PREFIX_TTL_S", int(usual.prefix_ttl_s))),
            broker_url=environment.get("PIPELINE_BROKER_URL") or None,
            shards=environment.get("PIPELINE_SHARDS") or None,
            source_url=environment.get("PIPELINE_SOURCE_URL") or None,
            target_url=environment.get("PIPELINE_TARGET_URL") or None,
            lost_after_s=float(_whole(environment, "PIPELINE_LOST_AFTER_S", int(usual.lost_after_s))),
            batch_seconds=float(_whole(environment, "PIPELINE_BATCH_SECONDS", int(usual.batch_seconds))),
            log_format=_one_of(environment, "PIPELINE_LOG_FORMAT", LOG_FORMATS),
            ui_token=environment.get("PIPELINE_UI_TOKEN") or None,
            metrics_port=_whole(environment, "PIPELINE_METRICS_PORT", 0, least=0) or None,
            traces=_traces(environment),
        )


def _traces(environment: Mapping[str, str]) -> bool:
    """By the variables that all programs with OpenTelemetry have in common; its library reads the others."""
    if environment.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return False
    return any(environment.get(f"OTEL_EXPORTER_OTLP_{name}") for name in ("ENDPOINT", "TRACES_ENDPOINT"))


def _one_of(environment: Mapping[str, str], name: str, words: Sequence[str]) -> str:
    """The first is the default."""
    word = environment.get(name) or words[0]
    if word not in words:
        raise SpecError(f"{name} is {word!r}; it must be {' or '.join(words)}.")
    return word


def _whole(environment: Mapping[str, str], name: str, default: int, *, least: int = 1) -> int:
    text = environment.get(name)
    if text is None:
        return default
    try:
        value = int(text)
    except ValueError:
        value = least - 1
    if value < least:
        raise SpecError(f"{name} is {text!r}; it must be a whole number of {least} or more.")
    return value
