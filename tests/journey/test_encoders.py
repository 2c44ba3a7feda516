"""An encoder model in the manner of MiniLM, from the flags to the vectors, and what it cannot be asked for."""

import pyarrow.parquet as pq
import pytest
import torch
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from torch.nn.functional import normalize
from transformers import AutoModel, AutoTokenizer, BertConfig, BertModel, PreTrainedTokenizerFast

NAMES = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
TEXTS = ["The film was good.", None, "", "bad [SEP] film", "good " * 20, "a " * 63, "a very bad film, they said"]


@pytest.fixture(scope="module")
def tiny_bert(tmp_path_factory):
    directory = tmp_path_factory.mktemp("tiny-bert")
    words = [*NAMES.values(), *"abcdefghijklmnopqrstuvwxyz[]., ", *(f"##{c}" for c in "abcdefghijklmnopqrstuvwxyz")]
    words += ["film", "good", "bad", "the", "was", "search", "for"]
    tokenizer = Tokenizer(models.WordPiece({word: place for place, word in enumerate(words)}, unk_token="[UNK]"))
    tokenizer.normalizer, tokenizer.pre_tokenizer = normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, **NAMES).save_pretrained(directory)
    torch.manual_seed(5)
    sizes = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4}
    BertModel(BertConfig(vocab_size=len(words), max_position_embeddings=64, **sizes)).save_pretrained(directory)
    return directory


@pytest.fixture
def embed(home, table, tiny_bert):
    def submit(*flags, prompt="search for {text}", texts=TEXTS):
        given = ("--name", "night", "--model", tiny_bert, "--prompt", prompt, *flags)
        return home.call("submit", table(text=texts), *given)

    return submit


def plain(directory, texts, pooling):
    """sentence-transformers' formulas over a padded batch."""
    batch = AutoTokenizer.from_pretrained(directory)(texts, padding=True, return_tensors="pt")
    with torch.no_grad():
        states = AutoModel.from_pretrained(directory).eval()(**batch).last_hidden_state
    mask = batch["attention_mask"].unsqueeze(-1).float()
    last = states[torch.arange(len(texts)), batch["attention_mask"].sum(1) - 1]
    return normalize((states * mask).sum(1) / mask.sum(1) if pooling == "mean" else last, dim=1)


@pytest.mark.parametrize("pooling", ["last", "mean"])
def test_its_vectors_are_those_of_transformers(home, embed, tiny_bert, tmp_path, pooling):
    path = tmp_path / "vectors.parquet"
    done = embed("--raw", "--embed", pooling, "--output", path)
    assert done.exit_code == 0, done.stderr
    assert home.faults("night") == []
    assert [result.error_type for result in home.results("night")] == [None, "null", None, None, None, "too_long", None]
    column = pq.read_table(path)["embedding"]
    assert str(column.type).endswith("[32]")
    places = [0, 2, 4, 6]
    expected = plain(tiny_bert, [f"search for {TEXTS[place]}" for place in places], pooling)
    found = torch.tensor([column[place].as_py() for place in places])
    assert (found - expected).abs().max() <= 1e-5
    assert [column[place].as_py() for place in (1, 5)] == [None, None]


def test_what_somebody_typed_is_no_special_token(home, embed, tiny_bert):
    assert embed("--raw", "--embed", "mean", texts=["bad [SEP] film"]).exit_code == 0
    (result,) = home.results("night")
    whole = AutoTokenizer.from_pretrained(tiny_bert)("search for bad [SEP] film")["input_ids"]
    assert result.prompt_tokens > len(whole)


def test_it_is_said_what_it_is_for(home, embed, told):
    assert told(embed("--raw", "--max-tokens", "4"), 1) == (
        "Models of type bert read a text and write none: they can --embed. To write, to choose or to score, take a "
        "decoder such as Llama or Qwen."
    )
    assert told(embed("--embed", "mean"), 1).startswith("This model has no chat template")
    assert told(embed("--raw", "--embed", "cls"), 2) == "--embed must be 'last' or 'mean', and not 'cls'."


def test_it_can_be_rehearsed_and_profiled(home, embed, table, tiny_bert):
    shown = embed("--raw", "--embed", "mean", "--dry-run")
    assert (shown.exit_code, "[CLS] search for the film was good . [SEP]" in shown.stdout) == (0, True), shown.output
    flags = ("--model", tiny_bert, "--raw", "--prompt", "{text}", "--embed", "last")
    assert home.call("profile", table(text=TEXTS), *flags).exit_code == 0
