"""What becomes of the shards of a tokenizer pool, whose processes tell their parent through a pipe, a line a shard."""

import json
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Histogram

from pipeline.encoding import Encoded

#: Of a sentence that is told, for its line to be short.
_MOST_LETTERS = 300
_SECONDS = (0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)


class EncodedMetrics:
    """Made before the pool is. Lines as short as these are written whole or not at all (POSIX, PIPE_BUF), so a process
    that is killed breaks none; where nobody reads them for long, they are dropped rather than waited for. `on_trouble`
    hears what keeps a process from encoding, and None where one could encode."""

    def __init__(
        self, registry: CollectorRegistry, on_trouble: Callable[[str | None], None] = lambda trouble: None
    ) -> None:
        self._on_trouble = on_trouble
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
        self._send([len(encoded.failures), n_copied, encoded.prompt_tokens, encoded.seconds])

    def tell_trouble(self, trouble: str) -> None:
        """The same of a shard that could not be encoded just now."""
        self._send(trouble[:_MOST_LETTERS])

    def _send(self, told: list[float] | str) -> None:
        with suppress(BlockingIOError):
            os.write(self._write, json.dumps(told).encode() + b"\n")

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
                told: list[Any] | str = json.loads(line)
                if isinstance(told, str):
                    self._on_trouble(told)
                else:
                    self._on_trouble(None)
                    self._count(*told)

    def _count(self, errors: int, copied: int, tokens: int, seconds: float) -> None:
        self._shards.inc()
        self._rows.labels("error").inc(errors)
        self._rows.labels("copied").inc(copied)
        self._tokens.inc(tokens)
        self._seconds.labels("encode").observe(seconds)
