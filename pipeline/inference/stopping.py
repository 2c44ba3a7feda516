"""When a row's answer ends: at one of the model's stop tokens, or where its text first holds a stop string."""

from collections.abc import Callable, Sequence
from functools import cache
from itertools import islice

Decoder = Callable[[Sequence[int]], str]


class StopRule:
    """`write` turns token ids into text: without control tokens, and without half a character at its end."""

    def __init__(self, stop_ids: frozenset[int], stop: Sequence[str], write: Decoder) -> None:
        self._stop_ids, self._stop, self._write = stop_ids, tuple(stop), write
        # A token with text is one byte at least, so a stop string spans no more of them than it has bytes.
        self._window = max((len(text.encode()) for text in stop), default=0) + 4
        # Twice, for some tokenizers drop the space that a text begins with.
        self._has_text = cache(lambda token_id: bool(write([token_id, token_id])))

    def stops(self, token_ids: Sequence[int]) -> bool:
        """Whether the newest token ends the answer."""
        return token_ids[-1] in self._stop_ids or (bool(self._stop) and self._ends(token_ids))

    def text(self, token_ids: Sequence[int]) -> str:
        """The answer: without the stop token, cut before the first stop string."""
        text = self._write(self._kept(token_ids))
        return text[: self._found(text)]

    def cuts(self, token_ids: Sequence[int]) -> bool:
        """Whether a stop string takes something off the answer."""
        return bool(self._stop) and self._found(self._write(self._kept(token_ids))) is not None

    def _ends(self, token_ids: Sequence[int]) -> bool:
        """Whether a stop string stands at the end, or did before."""
        last = list(islice(filter(self._has_text, reversed(token_ids)), self._window))[::-1]
        text = self._write(last)
        # Some tokenizers read no byte of those that follow half a character, with which these may begin.
        texts = [self._write(last[start:]) for start in range(1, 4)] if text.startswith("\ufffd") else []
        return any(self._found(each) is not None for each in (text, *texts))

    def _kept(self, token_ids: Sequence[int]) -> Sequence[int]:
        return token_ids[:-1] if token_ids and token_ids[-1] in self._stop_ids else token_ids

    def _found(self, text: str) -> int | None:
        places = [place for stop in self._stop if (place := text.find(stop)) >= 0]
        return min(places, default=None)
