"""Between stages 3 and 5: the encoded batches of a shard in one Arrow file, a message each, until their turn comes."""

import logging
from collections import OrderedDict
from collections.abc import Sequence
from contextlib import ExitStack

import pyarrow as pa

from pipeline.errors import InputError
from pipeline.ingest.faults import reading
from pipeline.ingest.places import open_file, written

_LOG = logging.getLogger(__name__)
_SCHEMA = pa.schema([pa.field("message", pa.large_binary(), nullable=False)])


def name(shard_no: int, fence: int) -> str:
    """No two attempts at a shard write the same file."""
    return f"{shard_no:05}-{fence}.tokens"


def attempts(place: str, fence: int) -> list[str]:
    """The shard's file beside those of all attempts up to the one with this fence, of which some came to nothing."""
    stem, _, _ = place.rpartition("-")
    return list(dict.fromkeys([place, *(f"{stem}-{number}.tokens" for number in range(1, fence + 1))]))


def write(place: str, messages: Sequence[bytes]) -> None:
    """Whole or not at all. Raises TryAgain for a full disk or where the place cannot be reached, else JobError."""
    with written(place) as file, pa.ipc.new_file(file, _SCHEMA) as arrow:
        for message in messages:
            arrow.write_batch(pa.record_batch([pa.array([message], pa.large_binary())], schema=_SCHEMA))


class TokenFile:
    """One of them, open to read any message of it."""

    def __init__(self, place: str) -> None:
        """Raises InputError where it is missing or damaged, TryAgain where it cannot be reached."""
        self._place = place
        with ExitStack() as opened, reading(place):
            self._arrow = opened.enter_context(pa.ipc.open_file(opened.enter_context(open_file(place))))
            self._opened = opened.pop_all()

    def message(self, part: int) -> bytes:
        """The one at this place, from 0; raises as opening it does."""
        with reading(self._place):
            if not 0 <= part < self._arrow.num_record_batches:
                raise InputError(f"{self._place} has no part {part}: it holds {self._arrow.num_record_batches}.")
            message: bytes = self._arrow.get_batch(part).column(0)[0].as_py()
            return message

    def close(self) -> None:
        self._opened.close()


class TokenFiles:
    """The files that were read last, kept open: a shard's batches are asked for one after the other."""

    def __init__(self, most: int = 8) -> None:
        self._most = most
        self._files: OrderedDict[str, TokenFile] = OrderedDict()

    def message(self, place: str, part: int) -> bytes | None:
        """None, and a warning in the log, where it is missing or damaged. Raises TryAgain."""
        try:
            return self._file(place).message(part)
        except InputError as error:
            _LOG.warning("A batch goes without its tokens, to be encoded again: %s", error)
            return None

    def close(self) -> None:
        while self._files:
            self._files.popitem()[1].close()

    def _file(self, place: str) -> TokenFile:
        if place not in self._files:
            self._files[place] = TokenFile(place)
        self._files.move_to_end(place)
        while len(self._files) > self._most:
            self._files.popitem(last=False)[1].close()
        return self._files[place]
