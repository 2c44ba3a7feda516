"""Stage 3, foretold: how many of the prompts' tokens have to go through the model, where what they share goes once."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pipeline.prefix_tree import distinct_tokens
from pipeline.rows import Asked, Prompt, samples_of, task_of


@dataclass(frozen=True, slots=True)
class Sharing:
    """Prompt tokens count once for each answer, as the engine counts them."""

    prompt_tokens: int  #: of all rows, whole
    computed_tokens: int  #: of these, what is computed behind the job's prefix


def foretell(prefix: Sequence[int], prompts: Sequence[Prompt], asked: Asked) -> Sharing:
    """Of prompts that have their cuts, and their twins where these are answered with them."""
    # A sample of its own begins with the prompt's last token.
    more_samples = sum(samples_of(task_of(asked, prompt.row_id)) - 1 for prompt in prompts)
    return Sharing(whole_tokens(prefix, prompts, asked), distinct_tokens(prompts) + more_samples)


def whole_tokens(prefix: Sequence[int], prompts: Iterable[Prompt], asked: Asked) -> int:
    """Of all rows, those of the prompts' twins too."""
    return sum(
        (len(prefix) + len(prompt.own_ids)) * len(prompt.row_ids) * samples_of(task_of(asked, prompt.row_id))
        for prompt in prompts
    )


def share_reused(prompt_tokens: int, computed_tokens: int) -> float:
    """Of all prompt tokens."""
    return 1 - computed_tokens / prompt_tokens if prompt_tokens else 0.0
