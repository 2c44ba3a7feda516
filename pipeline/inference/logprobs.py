"""Inside stage 5: how likely the model held each token of an answer, and which ones it held likeliest in its place."""

from collections.abc import Callable, Sequence
from functools import cache

from torch import Tensor, float32

from pipeline.rows import LikelyToken, TokenLogprob


def token_logprobs(
    logits: Tensor, token_ids: Tensor, top: int, text: Callable[[int], str]
) -> list[TokenLogprob | None]:
    """logits [rows, vocab] as the model gave them, token_ids [rows]; None where a token id is below 0.

    The logarithms are those that OpenAI's API and vLLM give by themselves: of the softmax of the logits, before
    temperature, penalties and all that narrows it. A token that cannot come is not among the `top`.
    """
    logprobs = logits.log_softmax(-1, dtype=float32)
    of_picked = logprobs.gather(-1, token_ids.clamp(min=0)[:, None])[:, 0]
    likeliest = logprobs.topk(min(top, logprobs.shape[-1]))
    rows = zip(
        token_ids.tolist(), of_picked.tolist(), likeliest.indices.tolist(), likeliest.values.tolist(), strict=True
    )
    return [
        None if token_id < 0 else TokenLogprob(token_id, text(token_id), logprob, _likely(top_ids, values, text))
        for token_id, logprob, top_ids, values in rows
    ]


def token_text(decode: Callable[[Sequence[int]], str]) -> Callable[[int], str]:
    """A token's own text, remembered. Tokenizers drop the space that a token begins with where it stands alone."""

    @cache
    def text(token_id: int) -> str:
        alone, twice = decode([token_id]), decode([token_id, token_id])
        return twice[len(alone) :] if twice.startswith(alone) else alone

    return text


def _likely(token_ids: list[int], values: list[float], text: Callable[[int], str]) -> tuple[LikelyToken, ...]:
    return tuple(
        LikelyToken(token_id, text(token_id), value)
        for token_id, value in zip(token_ids, values, strict=True)
        if value > float("-inf")
    )
