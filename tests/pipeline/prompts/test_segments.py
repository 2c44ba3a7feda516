import random
from pathlib import Path

import pytest
from tokenizers import AddedToken
from transformers import PreTrainedTokenizerFast

from pipeline.prompts.segments import Segments
from pipeline.prompts.vocabulary import Vocabulary
from tests.pipeline.prompts.conftest import KINDS, SPECIAL, byte_level

SCRAPS = [
    *SPECIAL,
    *SPECIAL,
    "<think>",
    "<|im_",
    "end|>",
    "<",
    " ",
    "  ",
    "\n",
    "Hi",
    " there",
    "é",
    "▁",
    "42",
    "7",
    "ﬁ",
]
HEAD = "<|im_start|>system\nRead with care what is asked.<|im_end|>\n<|im_start|>user\n"


def texts(count: int) -> list[str]:
    numbers = random.Random(5)
    return ["".join(numbers.choices(SCRAPS, k=numbers.randrange(9))) for _ in range(count)]


def wholes(vocabulary: Vocabulary, some: list[str]) -> list[tuple[int, ...]]:
    return [tuple(vocabulary.encode(text).ids) for text in some]


class Watched(Vocabulary):
    """Remembers what it has encoded."""

    seen: list[str]

    def ids(self, texts):
        self.seen = [*getattr(self, "seen", []), *texts]
        return super().ids(texts)


def saved(tmp_path: Path, *added: AddedToken) -> Vocabulary:
    tokenizer = byte_level()
    for token in added:
        (tokenizer.add_special_tokens if token.special else tokenizer.add_tokens)([token])
    wrapped = PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>", unk_token="<unk>")
    wrapped.save_pretrained(str(tmp_path))
    return Watched(tmp_path)


def test_the_ids_are_those_of_the_whole_text(make, kind):
    vocabulary, _ = make(kind)
    segments, some = Segments(vocabulary, []), texts(400)
    assert segments.ids(some) == wholes(vocabulary, some)
    assert segments.ids([HEAD + text for text in some]) == wholes(vocabulary, [HEAD + text for text in some])


@pytest.mark.parametrize(
    "added",
    [
        AddedToken("Hi<|im_start|>", special=True, normalized=False),
        AddedToken("Hi<", special=False, normalized=False),
        AddedToken("<|im_start|>Hi", special=True, normalized=False),
        AddedToken("<|im_start|> there", special=True, normalized=False, lstrip=True),
        AddedToken("<|im_start|>", special=True, normalized=False, single_word=True),
        AddedToken("Hi", special=False, normalized=False, single_word=True),
        AddedToken("<|im_start|>", special=True, normalized=True),
    ],
)
def test_whatever_other_tokens_there_are_beside_those_that_it_cuts_at(tmp_path, added):
    vocabulary = saved(tmp_path, added)
    some = texts(400)
    assert Segments(vocabulary, []).ids(some) == wholes(vocabulary, some)


def test_what_texts_begin_with_is_encoded_once(tmp_path):
    vocabulary = saved(tmp_path)
    segments = Segments(vocabulary, [])
    for number in range(2):
        segments.ids([f"{HEAD}{letter} {number}" for letter in "abc"])
    assert sum(text.startswith("<|im_start|>system") for text in vocabulary.seen) == 1
    assert "<|im_start|>user\nb 1" in vocabulary.seen
    segments.ids(["another", "another"])
    assert segments._known.keys() == {"another"}


def test_where_the_sample_proves_it_wrong_nothing_is_cut(tmp_path, monkeypatch):
    vocabulary = saved(tmp_path)
    right = vocabulary.ids
    # As a tokenizer would that looks at what stands before a special token.
    monkeypatch.setattr(vocabulary, "ids", lambda some: [[len(text), *right([text])[0]] for text in some])
    segments = Segments(vocabulary, [HEAD])
    assert segments.ids([HEAD]) == [tuple(vocabulary.ids([HEAD])[0])]


@pytest.mark.parametrize("name", list(KINDS))
def test_where_a_look_for_names_tells_all_no_text_is_special_without_one(make, name):
    vocabulary, _ = make(name)
    unknown = {"<unk>"}
    for text in texts(300):
        found = {vocabulary.special[i].content for i in vocabulary.encode(text).ids if i in vocabulary.special}
        if not vocabulary.plain.holds_special(text):
            assert vocabulary.special_spans(text) == [] or not vocabulary._only_by_name
            assert found <= unknown or not vocabulary._only_by_name
