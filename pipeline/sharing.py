"""Stage 3, foretold: how many of the prompts' tokens have to go through the model, where what they share goes once."""

from collections.abc import Sequence
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
    samples = [samples_of(task_of(asked, prompt.row_id)) for prompt in prompts]
    whole = sum(
        (len(prefix) + len(prompt.own_ids)) * len(prompt.row_ids) * count
        for prompt, count in zip(prompts, samples, strict=True)
    )
    # A sample of its own begins with the prompt's last token.
    return Sharing(whole, distinct_tokens(prompts) + sum(samples) - len(prompts))


def share_reused(prompt_tokens: int, computed_tokens: int) -> float:
    """Of all prompt tokens."""
    return 1 - computed_tokens / prompt_tokens if prompt_tokens else 0.0
