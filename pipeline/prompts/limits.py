"""Stage 2, last step: a prompt that leaves no room for its answer is its row's error, said before the queue."""

from pipeline.errors import RowError


def check_length(prompt_tokens: int, context: int, room: int = 1) -> None:
    """`room` is what the answer needs at least: 1 token, the longest choice, or none. Raises RowError `too_long`."""
    if prompt_tokens + room <= context:
        return
    answer = f", and the answer needs room for {room} token{'s' if room > 1 else ''}" if room else ""
    raise RowError(
        "too_long",
        f"The prompt has {prompt_tokens} tokens; the model's context is {context}{answer}. "
        "Shorten the row's text or use a model with a longer context.",
    )
