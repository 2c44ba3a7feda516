"""Every logit that the engine computes against the plain model's: after each token of prompts and answers."""

from collections import defaultdict
from dataclasses import fields

import pytest
import torch

from pipeline.inference.engine import Engine
from pipeline.inference.loading import adopt
from pipeline.inference.model import LanguageModel
from pipeline.inference.prefix_store import PrefixStore
from pipeline.rows import Batch, Generate, Prompt

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
