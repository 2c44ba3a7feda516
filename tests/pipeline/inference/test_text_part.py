"""Of a model that reads images too, the text part is answered: the same as the whole where there is no image."""

import pytest
import torch
from transformers import (
    AutoModelForImageTextToText,
    Gemma3Config,
    Llama4Config,
    LlavaConfig,
    Mistral3Config,
    PixtralVisionConfig,
    SiglipVisionConfig,
)

from pipeline.errors import ModelError
from pipeline.inference.checkpoint import resolve_checkpoint
from pipeline.inference.families import refuse_unsupported
from pipeline.inference.loading import load_model, read_context
from tests.pipeline.inference.conftest import SIZES

TEXT = {name: size for name, size in SIZES.items() if name != "eos_token_id"}
IMAGES = {"hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
SLIDING = {"sliding_window": 16, "layer_types": ["sliding_attention", "full_attention", "sliding_attention"]}
WHOLE = {
    "gemma3": lambda: Gemma3Config(
        text_config={**TEXT, **SLIDING, "head_dim": 16},
        vision_config=SiglipVisionConfig(**IMAGES, image_size=28, patch_size=14),
        mm_tokens_per_image=4,
        eos_token_id=[7, 9],
    ),
    "mistral3, tied": lambda: mistral3(tied=True),
    "mistral3": lambda: mistral3(tied=False),
}


def mistral3(*, tied):
    return Mistral3Config(
        text_config={**TEXT, "model_type": "mistral", "head_dim": 16},
        vision_config=PixtralVisionConfig(**IMAGES, image_size=28, patch_size=14),
        tie_word_embeddings=tied,
        eos_token_id=[7, 9],
    )


@pytest.fixture(params=WHOLE)
def whole(request):
    torch.manual_seed(0)
    return AutoModelForImageTextToText.from_config(WHOLE[request.param](), dtype=torch.float32).eval()


def test_the_text_part_alone_is_what_the_whole_is_without_an_image(whole, tmp_path):
    whole.save_pretrained(tmp_path)
    model = load_model(resolve_checkpoint(str(tmp_path)), "cpu", "float32")
    model.network.set_attn_implementation("eager")
    rows = torch.arange(6, 6 + 2 * 40).view(2, 40)
    with torch.no_grad():
        torch.testing.assert_close(model.network(rows).logits, whole(rows).logits)


def test_what_the_whole_says_of_it_holds(whole, tmp_path):
    whole.save_pretrained(tmp_path)
    checkpoint = resolve_checkpoint(str(tmp_path))
    (tmp_path / "generation_config.json").unlink(missing_ok=True)
    model = load_model(checkpoint, "cpu", "float32")
    assert model.stop_ids == {7, 9}
    assert model.context == read_context(checkpoint) == SIZES["max_position_embeddings"]


@pytest.mark.parametrize(
    ("config", "words"),
    [
        (
            LlavaConfig,
            r"^Models of type llava read more than text\. Of those, the text part of gemma3 and mistral3 models",
        ),
        (Llama4Config, r"^Models of type llama4 have layers of type chunked_attention"),
    ],
)
def test_others_are_refused_for_what_they_are(config, words):
    with pytest.raises(ModelError, match=words):
        refuse_unsupported(config())
