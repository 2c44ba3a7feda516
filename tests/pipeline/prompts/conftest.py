"""Tiny tokenizers of every kind that models come with, made on the spot, in directories as transformers writes."""

from collections.abc import Callable, Sequence
from datetime import datetime
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from tokenizers.pre_tokenizers import PreTokenizer
from transformers import PreTrainedTokenizerFast

from pipeline.prompts.shapes import shape_of
from pipeline.prompts.tokens import PromptEncoder
from pipeline.prompts.vocabulary import Vocabulary
from pipeline.rows import Row
from pipeline.spec import JobSpec

SUBMITTED_AT = datetime(2024, 2, 29, 12, 30)
SPECIAL = ["<unk>", "<s>", "</s>", "<|im_start|>", "<|im_end|>"]
CORPUS = [
    "The film was a joy to watch from the first scene to the last, and the actors were wonderful.",
    "Classify the sentiment of this review. Answer positive or negative.\n\nReview: it was bad\nSentiment: negative\n",
    "system user assistant You are a helpful assistant. 123 45 6789 ... !!! don't can't it's  two   three\n\n\n\ttab",
    "中文 電影 很好 看。 日本語 も あります。 Привет мир, это фильм. é è ü ñ <|im_start|> </s> [INST] ' \" {} <think>",
    "a.config and file.config are in the path/.config of home.config",
] * 3

CHATML = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
TRIMMING = (
    "{{ bos_token }}{% for message in messages %}<|im_start|>{{ message['role'] }}\n\n"
    "{{ message['content'] | trim }}<|im_end|>{% endfor %}<|im_start|>assistant\n\n"
)
INSTRUCT = (
    "{{ bos_token }}{% set ns = namespace(system='') %}{% for message in messages %}"
    "{% if message.role == 'system' %}{% set ns.system = message.content + '\n\n' %}{% continue %}{% endif %}"
    "[INST] {{ ns.system }}{{ message.content }} [/INST]{% endfor %}"
)
LOOKING = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endfor %}"
    "<|im_start|>assistant\n{% if '/no_think' in messages[-1].content %}<think>\n\n</think>\n\n{% endif %}"
)
CHAT_TEMPLATES = {"chatml": CHATML, "trimming": TRIMMING, "instruct": INSTRUCT, "looking": LOOKING}


def byte_level(add_prefix_space: bool = False, words: PreTokenizer | None = None) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = words or pre_tokenizers.ByteLevel(add_prefix_space=add_prefix_space)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=True)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=700, special_tokens=SPECIAL, initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(CORPUS, trainer)
    tokenizer.add_tokens([AddedToken(name, special=False, normalized=False) for name in ("<think>", "<|tool_call|>")])
    return tokenizer


def llama3(marks: str = r"[^\s\p{L}\p{N}]+[\r\n]*") -> Tokenizer:
    words = Regex(
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?" + marks + r"|\s*[\r\n]+|\s+(?!\S)|\s+"
    )
    split = pre_tokenizers.Split(words, behavior="isolated")
    as_bytes = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer = byte_level(words=pre_tokenizers.Sequence([split, as_bytes]))
    tokenizer.post_processor = processors.Sequence([processors.ByteLevel(trim_offsets=False), _with_bos(tokenizer)])
    return tokenizer


def sentencepiece(prepend_scheme: str = "first", split: bool = True) -> Tokenizer:
    learner = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    learner.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme=prepend_scheme)
    all_bytes = [f"<0x{byte:02X}>" for byte in range(256)]
    trainer = trainers.BpeTrainer(vocab_size=900, special_tokens=SPECIAL + all_bytes, show_progress=False)
    learner.train_from_iterator(CORPUS, trainer)
    tokenizer = Tokenizer(learner.model)  # the bytes are not special in this one
    tokenizer.add_special_tokens(SPECIAL)
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme=prepend_scheme, split=split)
    tokenizer.post_processor = _with_bos(tokenizer)
    return tokenizer


def legacy_llama() -> Tokenizer:
    tokenizer = sentencepiece("always")
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tokenizer.pre_tokenizer = None
    tokenizer.add_tokens([AddedToken("<think>", special=False, normalized=False)])
    return tokenizer


def unigram() -> Tokenizer:
    """Its model knows the special tokens' names as pieces, so even plain text comes out as them."""
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Replace(Regex(" {2,}"), " ")])
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    trainer = trainers.UnigramTrainer(vocab_size=300, special_tokens=SPECIAL, unk_token="<unk>", show_progress=False)
    tokenizer.train_from_iterator(CORPUS, trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="$A </s>", special_tokens=[("</s>", tokenizer.token_to_id("</s>"))]
    )
    return tokenizer


def wordpiece() -> Tokenizer:
    tokenizer = Tokenizer(models.WordPiece(unk_token="<unk>"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    trainer = trainers.WordPieceTrainer(vocab_size=400, special_tokens=SPECIAL, show_progress=False)
    tokenizer.train_from_iterator(CORPUS, trainer)
    ends = [("<s>", tokenizer.token_to_id("<s>")), ("</s>", tokenizer.token_to_id("</s>"))]
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A </s>", special_tokens=ends)
    tokenizer.add_tokens([AddedToken("<think>", special=False, normalized=True)])
    return tokenizer


def swallowing() -> Tokenizer:
    """Special tokens that take the spaces beside them, as Phi-3's do, or stand alone as a word."""
    tokenizer = sentencepiece()
    tokenizer.add_special_tokens(
        [
            AddedToken("<|im_start|>", rstrip=True, special=True, normalized=False),
            AddedToken("<|im_end|>", lstrip=True, rstrip=True, special=True, normalized=False),
            AddedToken("</s>", lstrip=True, special=True, normalized=False),
        ]
    )
    return tokenizer


def normalized() -> Tokenizer:
    """Special tokens that are looked for only after the normalizer: <|IM_END|> is one too."""
    tokenizer = sentencepiece()
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Lowercase()])
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=True) for token in SPECIAL[1:]])
    return tokenizer


def normalized_llama() -> Tokenizer:
    """As some old conversions of Llama have it: a special token in the midst of a text is none."""
    tokenizer = legacy_llama()
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=True) for token in SPECIAL[1:]])
    return tokenizer


KINDS: dict[str, Callable[[], Tokenizer]] = {
    "gpt2": byte_level,
    "gpt2-prefix-space": lambda: byte_level(add_prefix_space=True),
    "llama3": llama3,
    "gpt-oss": lambda: llama3(r"[^\s\p{L}\p{N}]+[\r\n/]*"),
    "metaspace-first": sentencepiece,
    "metaspace-always": lambda: sentencepiece("always"),
    "metaspace-unsplit": lambda: sentencepiece("first", split=False),
    "legacy-llama": legacy_llama,
    "unigram": unigram,
    "wordpiece": wordpiece,
    "swallowing": swallowing,
    "normalized": normalized,
    "normalized-llama": normalized_llama,
}


def _with_bos(tokenizer: Tokenizer) -> processors.TemplateProcessing:
    bos = ("<s>", tokenizer.token_to_id("<s>"))
    return processors.TemplateProcessing(single="<s> $A", pair="<s> $A <s> $B", special_tokens=[bos])


@cache
def _built(kind: str) -> str:
    return KINDS[kind]().to_str()


Made = tuple[Vocabulary, Any]  #: ours and transformers', of one directory
Maker = Callable[..., Made]


@pytest.fixture(scope="session")
def make(tmp_path_factory: pytest.TempPathFactory) -> Maker:
    @cache
    def made(kind: str, chat_template: str | None = None) -> Made:
        directory = tmp_path_factory.mktemp(kind)
        wrapped = PreTrainedTokenizerFast(
            tokenizer_object=Tokenizer.from_str(_built(kind)), bos_token="<s>", eos_token="</s>", unk_token="<unk>"
        )
        wrapped.chat_template = CHAT_TEMPLATES.get(chat_template, chat_template)
        wrapped.save_pretrained(str(directory))
        return Vocabulary(directory), PreTrainedTokenizerFast.from_pretrained(str(directory))

    return made


@pytest.fixture(scope="session", params=list(KINDS))
def kind(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="session", params=list(CHAT_TEMPLATES))
def chat_template(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="session")
def encoder_for() -> Callable[..., PromptEncoder]:
    def made(
        vocabulary: Vocabulary,
        prompt: str,
        *,
        system: str | None = None,
        raw: bool = False,
        sample: Sequence[Row] = (),
        asked: Any = MappingProxyType({}),
        **more: Any,
    ) -> PromptEncoder:
        shape = shape_of(JobSpec(inputs="a.csv", model="m", prompt=prompt, system=system, raw=raw, **asked))
        return PromptEncoder(vocabulary, shape, raw=raw, submitted_at=SUBMITTED_AT, sample=sample, **more)

    return made


@pytest.fixture(scope="session")
def real(small_tokenizer: Path) -> Made:
    return Vocabulary(small_tokenizer), PreTrainedTokenizerFast.from_pretrained(str(small_tokenizer))
