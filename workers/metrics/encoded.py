"""The metrics of a pool of tokenizers: its processes tell the one that started them through a pipe, a line a shard."""

import json
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from prometheus_client import CollectorRegistry, Counter, Histogram

from pipeline.encoding import Encoded

_SECONDS = (0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)


class EncodedMetrics:
    """Made before the pool is. Lines as short as these are written whole or not at all (POSIX, PIPE_BUF), so a process
    that is killed breaks none; where nobody reads them for long, they are dropped rather than waited for."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._shards = Counter("pipeline_shards_encoded", "Shards that were turned into batches.", registry=registry)
        self._rows = Counter("pipeline_rows", "Rows that ended without a model.", ["outcome"], registry=registry)
        self._tokens = Counter("pipeline_prompt_tokens_encoded", "Prompt tokens, shared ones too.", registry=registry)
        self._seconds = Histogram(
            "pipeline_stage_seconds", "Seconds of a shard.", ["stage"], buckets=_SECONDS, registry=registry
        )
        self._read, self._write = os.pipe()
        os.set_blocking(self._write, False)

    def tell(self, encoded: Encoded) -> None:
        """In a process of the pool."""
        n_copied = len(encoded.copies) + len(encoded.followers)
        line = json.dumps([len(encoded.failures), n_copied, encoded.prompt_tokens, encoded.seconds])
        with suppress(BlockingIOError):
            os.write(self._write, line.encode() + b"\n")

    @contextmanager
    def listening(self) -> Iterator[None]:
        """In the process that started the pool; the last lines are counted when the block ends."""
        thread = threading.Thread(target=self._count_all, name="metrics", daemon=True)
        thread.start()
        try:
            yield
        finally:
            # A child that outlives this process would keep its own end open, so the end is told by an empty line.
            os.set_blocking(self._write, True)
            os.write(self._write, b"\n")
            thread.join()
            os.close(self._write)

    def _count_all(self) -> None:
        with os.fdopen(self._read) as lines:
            for line in lines:
                if line == "\n":
                    return
                self._count(*json.loads(line))

    def _count(self, errors: int, copied: int, tokens: int, seconds: float) -> None:
        self._shards.inc()
        self._rows.labels("error").inc(errors)
        self._rows.labels("copied").inc(copied)
        self._tokens.inc(tokens)
        self._seconds.labels("encode").observe(seconds)
