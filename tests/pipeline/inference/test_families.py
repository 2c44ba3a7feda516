"""Every logit that the engine computes against the plain model's: after each token of prompts and answers."""

from collections import defaultdict
from dataclasses import fields, replace

import pytest
import torch
from transformers import LlamaConfig

from pipeline.inference.engine import Engine
from pipeline.inference.loading import adopt
from pipeline.inference.model import LanguageModel
from pipeline.inference.prefix_store import PrefixStore
from pipeline.rows import Batch, Generate, Prompt
from tests.pipeline.inference.conftest import SIZES, network

#: Of the largest logit, in fp32.
TOLERANCE = 2e-5
LENGTHS = [1, 33, 7, 64, 7, 2]
NEW_TOKENS = 12
#: Tokens of a document that two rows share, longer than the families' windows.
DOCUMENT = 30


class Listening(LanguageModel):
    """Asks for the logits after all tokens of each forward, and keeps them by position and token."""

    heard = None

    def logits(self, token_ids, positions, keep, packed):
        everything = super().logits(token_ids, positions, 0, packed)
        for place, token, logits in zip(positions.tolist(), token_ids.tolist(), everything, strict=True):
            Listening.heard[place, token].append(logits)
        return everything[keep] if isinstance(keep, torch.Tensor) else everything[-keep:]


@pytest.fixture
def heard():
    Listening.heard = defaultdict(list)
    yield Listening.heard
    Listening.heard = None


def in_documents(batch, make_batch):
    """The same rows, each two behind a document of their own."""
    documents = [prompt.own_ids for prompt in make_batch([DOCUMENT] * 3, seed=2).prompts]
    prompts = [
        Prompt(prompt.row_id, prompt.key, documents[prompt.row_id // 2] + prompt.own_ids, (DOCUMENT,))
        for prompt in batch.prompts
    ]
    return Batch("job", 0, 1, 1, batch.prefix, tuple(prompts))


@pytest.fixture(params=["no prefix", "a prefix", "documents behind a prefix"])
def batch(request, make_batch):
    made = make_batch(LENGTHS, 0 if request.param == "no prefix" else 40)
    return in_documents(made, make_batch) if request.param.startswith("documents") else made


def test_every_logit_is_the_plain_model_s(family, batch, heard):
    model = adopt(family)
    listening = Listening(**{field.name: getattr(model, field.name) for field in fields(model)})
    answers, _ = Engine(listening, PrefixStore(1 << 20), lambda ids: " ".join(map(str, ids))).answer(
        batch, Generate(NEW_TOKENS)
    )
    family.set_attn_implementation("eager")
    written = {answer.row_id: [int(token) for token in answer.output.split()] for answer in answers}
    assert sum(map(len, written.values())) > NEW_TOKENS
    for prompt in batch.prompts:
        # Nothing is computed after the last token of an answer.
        tokens = [*batch.prefix, *prompt.own_ids, *written[prompt.row_id]][:-1]
        with torch.no_grad():
            expected = family(torch.tensor([tokens]), use_cache=False).logits[0]
        for place, token in enumerate(tokens):
            nearest = min((logits - expected[place]).abs().max().item() for logits in heard[place, token])
            assert nearest <= TOLERANCE * expected.abs().max().item(), (prompt.row_id, place)


#: Tokens up to which a row alone is rotated by the same factors as any other.
BORDER = 48
BY_LENGTH = {
    # A Llama's `generate` goes on by the factors for long rows, with keys by those for short ones.
    "longrope": lambda: LlamaConfig(
        **SIZES,
        rope_parameters={
            "rope_type": "longrope",
            "rope_theta": 1e4,
            "original_max_position_embeddings": BORDER,
            "short_factor": [1.0] * 8,
            "long_factor": [1.0 + 3 * n for n in range(8)],
        },
    ),
    "dynamic": lambda: LlamaConfig(
        **SIZES | {"max_position_embeddings": BORDER},
        rope_parameters={"rope_type": "dynamic", "rope_theta": 1e4, "factor": 4.0},
    ),
}


@pytest.mark.parametrize("rope", BY_LENGTH)
def test_factors_that_a_long_row_would_change_stay_those_of_short_rows(rope, make_batch):
    plain, batch = network(BY_LENGTH[rope]()), make_batch([4, 22, 18], prefix=20)
    model = replace(adopt(plain), stop_ids=frozenset())
    spelled = lambda ids: " ".join(map(str, ids))  # noqa: E731
    answers, _ = Engine(model, PrefixStore(1 << 20), spelled).answer(batch, Generate(16))
    plain.set_attn_implementation("eager")
    for answer in answers:
        prompt = [*batch.prefix, *batch.prompts[answer.row_id].own_ids]
        room = min(16, BORDER - len(prompt))
        expected = plain.generate(torch.tensor([prompt]), max_new_tokens=room, min_new_tokens=room, do_sample=False)
        assert answer.output == spelled(expected[0, len(prompt) :].tolist())
