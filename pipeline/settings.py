"""Where things lie and how long they may take: one frozen object, read from PIPELINE_* once per process."""

import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pipeline.errors import JobError, SpecError


@dataclass(frozen=True, slots=True)
class Settings:
    """Passed by argument from the command down; nothing else reads the environment."""

    home: Path = Path(".pipeline")  #: PIPELINE_HOME: shards, the tokenizers' copies, the default database
    database_url: str = "sqlite:///.pipeline/pipeline.db"  #: PIPELINE_DATABASE_URL
    device: str = "auto"  #: PIPELINE_DEVICE: auto, cpu, cuda, cuda:1
    shard_rows: int = 4096  #: PIPELINE_SHARD_ROWS: rows in one Parquet shard
    batch_rows: int = 128  #: PIPELINE_BATCH_ROWS: rows in one batch at most
    batch_tokens: int = 8192  #: PIPELINE_BATCH_TOKENS: own prompt tokens in one batch at most
    lease_s: float = 60.0  #: PIPELINE_LEASE_S: a batch whose worker is silent for so long is given to another
    prefix_bytes: int = 2 << 30  #: PIPELINE_PREFIX_BYTES: keys and values of shared prefixes in the device's memory
    prefix_host_bytes: int = 8 << 30  #: PIPELINE_PREFIX_HOST_BYTES: of these in the host's, where a GPU computes
    prefix_disk_bytes: int = 8 << 30  #: PIPELINE_PREFIX_DISK_BYTES: of these on disk; 0 keeps none there
    prefix_ttl_s: float = 14 * 86400.0  #: PIPELINE_PREFIX_TTL_S: after so long without use they are forgotten

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

    def shard_directory(self, job_id: str) -> Path:
        """Where a job's input lies once it is cut."""
        return (self.home / "jobs" / job_id / "shards").absolute()

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
        )


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
