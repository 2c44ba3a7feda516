"""When a row's answer ends: at one of the model's stop tokens, or where its text first holds a stop string."""

from collections.abc import Callable, Sequence

Decoder = Callable[[Sequence[int]], str]


class StopRule:
    """`write` turns token ids into text: without control tokens, and without half a character at its end."""

    def __init__(self, stop_ids: frozenset[int], stop: Sequence[str], write: Decoder) -> None:
        self._stop_ids, self._stop, self._write = stop_ids, tuple(stop), write
        # A token is one byte at least, so a stop string spans no more tokens than it has bytes.
        self._window = max((len(text.encode()) for text in stop), default=0) + 4

    def stops(self, token_ids: Sequence[int]) -> bool:
        """Whether the newest token ends the answer."""
        if token_ids[-1] in self._stop_ids:
            return True
        return bool(self._stop) and self._found(self._write(token_ids[-self._window :])) is not None

    def text(self, token_ids: Sequence[int]) -> str:
        """The answer: without the stop token, cut before the first stop string."""
        text = self._write(self._kept(token_ids))
        return text[: self._found(text)]

    def cuts(self, token_ids: Sequence[int]) -> bool:
        """Whether a stop string takes something off the answer."""
        return self._found(self._write(self._kept(token_ids))) is not None

    def _kept(self, token_ids: Sequence[int]) -> Sequence[int]:
        return token_ids[:-1] if token_ids and token_ids[-1] in self._stop_ids else token_ids

    def _found(self, text: str) -> int | None:
        places = [place for stop in self._stop if (place := text.find(stop)) >= 0]
        return min(places, default=None)
