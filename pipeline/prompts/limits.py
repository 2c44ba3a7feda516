"""Stage 2, last step: a prompt that leaves no room for its answer is its row's error, said before the queue."""

from pipeline.errors import RowError

_TYPE = "too_long"

#: Of a remedy, what only a prompt made of columns can be asked for, and no line of a batch file can.
CUTTING = ", have it cut (--on-too-long)"


def check_length(prompt_tokens: int, context: int, remedy: str, room: int = 1, behind: str = "the answer") -> None:
    """`room` is what stands `behind` it needs at least: 1 token, the longest choice, or none; `remedy` is the shape's.

    Raises RowError `too_long`.
    """
    if prompt_tokens + room <= context:
        return
    answer = f", and {behind} needs room for {_tokens(room)}" if room else ""
    raise RowError(
        _TYPE,
        f"The prompt has {prompt_tokens} tokens; the model's context is {context}{answer}. "
        f"{remedy}, or use a model with a longer context.",
    )


def too_long_without(column: str, tokens: int, context: int, room: int) -> RowError:
    """Where not even all of the column's text left out makes room enough."""
    return RowError(
        _TYPE,
        f'Without any text of the column "{column}" the prompt still has {_tokens(tokens)}; the model\'s context is '
        f"{context}, of which the answer has {_tokens(room)}. Shorten the prompt or the other columns, allow a shorter "
        "answer, or use a model with a longer context.",
    )


def nothing_left(column: str, room: int) -> RowError:
    """Where only all of it left out would."""
    return RowError(
        _TYPE,
        f'There is room for no character of the column "{column}" beside the rest of the prompt and {_tokens(room)} of '
        "the answer. Shorten the prompt or the other columns, allow a shorter answer, or use a model with a longer "
        "context.",
    )


def _tokens(count: int) -> str:
    return "1 token" if count == 1 else f"{count} tokens"
