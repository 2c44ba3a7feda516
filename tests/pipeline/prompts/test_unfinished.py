"""Answers that end anywhere amid a character, by tokenizers of both kinds whose tokens may be single bytes."""

import pytest
from tokenizers import Tokenizer, decoders, models
from tokenizers.pre_tokenizers import ByteLevel
from transformers import PreTrainedTokenizerFast
from transformers.convert_slow_tokenizer import bytes_to_unicode

from pipeline.prompts.vocabulary import Vocabulary

FALLBACK = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
SPECIAL = ["<unk>", "</s>"]
LATIN = bytes_to_unicode()
TEXTS = ["né", "ok 日本🌧️", "a\n日", "bad \ufffd", "\ufffd\ufffd", "🌧\ufffd", ""]


def vocabulary_of(directory, pieces, merges, decoder):
    tokenizer = Tokenizer(models.BPE({piece: n for n, piece in enumerate(pieces)}, merges))
    tokenizer.pre_tokenizer, tokenizer.decoder = ByteLevel(), decoder
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="<unk>", eos_token="</s>").save_pretrained(directory)
    return Vocabulary(directory)


@pytest.fixture
def byte_level(tmp_path):
    """The byte b has the id b + 2; behind them, a space with half of an emoji."""
    merges = [("Ġ", "ð"), ("Ġð", "Ł")]
    pieces = [*SPECIAL, *(LATIN[byte] for byte in range(256)), "ĠðŁ", "Ġð"]
    return vocabulary_of(tmp_path, pieces, merges, decoders.ByteLevel())


@pytest.fixture
def fallback(tmp_path):
    return vocabulary_of(tmp_path, [*SPECIAL, *(f"<0x{byte:02X}>" for byte in range(256)), "\ufffd"], [], FALLBACK)


def ids(written):
    return [byte + len(SPECIAL) for byte in written]


@pytest.mark.parametrize("kind", ["byte_level", "fallback"])
@pytest.mark.parametrize("text", TEXTS)
def test_half_a_character_at_the_end_is_left_out_and_a_character_of_any_kind_is_kept(kind, text, request):
    vocabulary, written = request.getfixturevalue(kind), text.encode()
    for end in range(len(written) + 1):
        assert vocabulary.write(ids(written[:end])) == written[:end].decode(errors="ignore")


@pytest.mark.parametrize("kind", ["byte_level", "fallback"])
def test_tokens_without_text_amid_a_character_change_nothing(kind, request):
    vocabulary, half = request.getfixturevalue(kind), ids("🌧".encode()[:3])
    unknown = 5000
    assert vocabulary.write([*ids(b"a"), half[0], 1, half[1], unknown, half[2], 1]) == "a"


@pytest.mark.parametrize("kind", ["byte_level", "fallback"])
def test_bytes_that_begin_no_character_are_replaced_at_the_end_as_they_are_inside(kind, request):
    vocabulary = request.getfixturevalue(kind)
    text = vocabulary.write(ids(b"a\x80"))
    assert text.endswith("\ufffd")
    assert text == vocabulary.decode(ids(b"a\x80"))


def test_a_token_that_ends_amid_a_character_keeps_what_it_has_before(byte_level):
    assert byte_level.write([*ids(b"ok"), 258]) == "ok "
    assert byte_level.write([258, *ids("🌧".encode()[2:])]) == " 🌧"


def test_a_token_that_is_the_replacement_character_is_kept(fallback):
    assert fallback.write([*ids(b"ok"), 258, 258]) == "ok\ufffd\ufffd"


def test_a_tokenizer_without_single_bytes_writes_what_it_decodes(make):
    vocabulary, _ = make("wordpiece")
    written = vocabulary.encode("the film \ufffd").ids
    assert vocabulary.write(written) == vocabulary.decode(written)
