"""Stage 2: a message's text, and what in it may be a special token of the model."""

import re
from dataclasses import dataclass

_FILLER = "\ufffc"  # stands for any character that is no space and in no special token


@dataclass(frozen=True, slots=True)
class Content:
    """`own` is the text with all hidden that the prompt did not write itself, such as a row's values; by itself all."""

    text: str
    own: str | None = None

    @property
    def trusted(self) -> str:
        """Where special tokens count."""
        return hidden(self.text) if self.own is None else self.own


def hidden(text: str) -> str:
    """The text with all but its spaces made unreadable; of the same length."""
    return re.sub(r"\S", _FILLER, text)
