"""Stage 2: a message's text, and what in it may be a special token of the model."""

import re
from dataclasses import dataclass

_FILLER = "\ufffc"  # stands for any character that is no space and in no special token


@dataclass(frozen=True, slots=True)
class Content:
    """`trusted` is the text with all hidden that the prompt did not write itself, such as a row's values."""

    text: str
    trusted: str

    @classmethod
    def of_row(cls, text: str) -> "Content":
        """None of it is trusted."""
        return cls(text, hidden(text))


def hidden(text: str) -> str:
    """The text with all but its spaces made unreadable; of the same length."""
    return re.sub(r"\S", _FILLER, text)
