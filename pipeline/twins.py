"""Stage 3: rows whose prompts are the same, token by token, are one prompt, whose answer is written down for each."""

from collections.abc import Sequence
from dataclasses import replace

from pipeline.rows import Completion, Prompt, Status, Twin


def distinct(prompts: Sequence[Prompt]) -> list[Prompt]:
    """The first of each kind, in their order, with the others as its twins."""
    alike: dict[tuple[tuple[int, ...], tuple[int, ...]], list[Prompt]] = {}
    for prompt in prompts:
        alike.setdefault((prompt.own_ids, prompt.target), []).append(prompt)
    return [_with_twins(first, others) if others else first for first, *others in alike.values()]


def for_each_row(prompt: Prompt, completion: Completion) -> list[Completion]:
    """The prompt's completion as that of its own row and of each twin, for which nothing was computed. Of twins, one is
    enough to be found again."""
    reused = completion.reused_tokens if completion.status is Status.ERROR else completion.prompt_tokens
    copy = replace(completion, reused_tokens=reused, prompt_hash=None)
    return [
        replace(completion, cut_tokens=prompt.cut_tokens),
        *(replace(copy, row_id=twin.row_id, key=twin.key, cut_tokens=twin.cut_tokens) for twin in prompt.twins),
    ]


def _with_twins(first: Prompt, others: Sequence[Prompt]) -> Prompt:
    return replace(first, twins=tuple(Twin(other.row_id, other.key, other.cut_tokens) for other in others))
