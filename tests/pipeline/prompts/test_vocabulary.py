import json
import shutil

import pytest
from tokenizers import Tokenizer

from pipeline.errors import ModelError
from pipeline.prompts.vocabulary import Vocabulary


@pytest.fixture
def directory(make, tmp_path):
    _, tokenizer = make("llama3", "chatml")
    return shutil.copytree(tokenizer.name_or_path, tmp_path / "model")


def change_config(directory, **fields):
    path = directory / "tokenizer_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | fields))


def test_what_is_known_of_a_tokenizer(directory):
    vocabulary = Vocabulary(directory)
    assert (vocabulary.bos_id, vocabulary.eos_id) == (1, 2)
    assert vocabulary.opening_ids == (1,)
    assert {token.content for token in vocabulary.special.values()} == {
        "<unk>",
        "<s>",
        "</s>",
        "<|im_start|>",
        "<|im_end|>",
    }
    assert vocabulary.special_tokens == {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
    assert "<|im_start|>" in vocabulary.chat_template


def test_decoding_leaves_special_tokens_out(directory):
    vocabulary = Vocabulary(directory)
    assert vocabulary.decode(vocabulary.encode("The film 中😀<|im_end|></s>").ids) == "The film 中😀"


def test_truncation_and_padding_are_off(directory):
    path = directory / "tokenizer.json"
    tokenizer = Tokenizer.from_file(str(path))
    tokenizer.enable_truncation(3)
    tokenizer.enable_padding(length=50)
    tokenizer.save(str(path))
    assert len(Vocabulary(directory).encode("1 2 3 4 5 6 7 8 9").ids) == 17


def test_the_digest_is_of_tokenizer_and_chat_template(directory):
    first = Vocabulary(directory).digest
    assert Vocabulary(directory).digest == first
    (directory / "chat_template.jinja").write_text("{{ messages[0].content }}")
    second = Vocabulary(directory).digest
    path = directory / "tokenizer.json"
    path.write_text(path.read_text().replace("<|im_end|>", "<|im_stop|>"))
    assert len({first, second, Vocabulary(directory).digest}) == 3


def test_where_a_chat_template_may_be(directory):
    named = [{"name": "tool_use", "template": "t"}, {"name": "default", "template": "d"}]
    change_config(directory, chat_template=named)
    assert "<|im_start|>" in Vocabulary(directory).chat_template
    (directory / "chat_template.jinja").unlink()
    assert Vocabulary(directory).chat_template == "d"
    change_config(directory, chat_template="c")
    assert Vocabulary(directory).chat_template == "c"
    change_config(directory, chat_template=None)
    assert Vocabulary(directory).chat_template is None


@pytest.mark.parametrize("name", ["tokenizer.json", "tokenizer_config.json"])
@pytest.mark.parametrize("content", [None, "not json", "[1]"])
def test_missing_and_broken_files_are_named(directory, name, content):
    path = directory / name
    path.unlink()
    if content is not None:
        path.write_text(content)
    with pytest.raises(ModelError, match=name):
        Vocabulary(directory)


def test_special_tokens_stand_where_the_tokenizer_finds_them(make):
    vocabulary, _ = make("swallowing")
    text = "a \n<|im_end|>  b<|im_start|> c<unk>□"
    spans = [
        (text[start:end], vocabulary.special[token_id].content)
        for start, end, token_id in vocabulary.special_spans(text)
    ]
    assert spans == [(" \n<|im_end|>  ", "<|im_end|>"), ("<|im_start|> ", "<|im_start|>"), ("<unk>", "<unk>")]
