"""The promise of exactness over ten thousand texts for each kind of tokenizer, the same ones in every run."""

import random

import pytest

from pipeline.rows import Prompt, Row

PROMPT = "Classify the sentiment of this review.\n\nReview: {text}\nIts sentiment, of 1 or 2 words; don't explain:"
SCRAPS = [
    *(
        "the",
        "film",
        " was",
        "ing",
        "don't",
        "2024",
        "12,345.67",
        ".",
        "...",
        "!?",
        " ",
        "  ",
        "\n\n",
        "\t",
        "\u00a0",
        "\u200b",
        "\u0301",
    ),
    *(
        "é",
        "中文",
        "電影。",
        "Привет",
        "مرحبا",
        "नमस्ते",
        "😀",
        "👩‍👩‍👧",
        "▁",
        "##ing",
        "{text}",
        "<",
        "|",
        ">",
        "[INST]",
        "<think>",
        "ﬁ",
        "\x00",
    ),
]
SPECIAL = ["<s>", "</s>", "<|im_start|>", "<|im_end|>"]


@pytest.mark.parametrize("kind", ["gpt2", "metaspace-first", "unigram", "wordpiece"])
def test_ten_thousand_texts_are_exact_and_their_special_tokens_plain(make, encoder_for, kind):
    vocabulary, tokenizer = make(kind)
    encoder = encoder_for(vocabulary, PROMPT, raw=True)
    numbers = random.Random(kind)
    plain = ["".join(numbers.choices(SCRAPS, k=numbers.randrange(1, 7))) for _ in range(9_000)]
    hostile = [
        "".join([*numbers.choices(SCRAPS, k=2), numbers.choice(SPECIAL), *numbers.choices([*SCRAPS, *SPECIAL], k=2)])
        for _ in range(1_000)
    ]
    found = encoder.encode([Row(place, "", {"text": text}) for place, text in enumerate(plain + hostile)])
    wholes = tokenizer([PROMPT.replace("{text}", text) for text in plain])["input_ids"]
    ends = [-1 if ids[-1] == vocabulary.eos_id else None for ids in wholes]
    assert [[*encoder.prefix, *prompt.own_ids] for prompt in found[:9_000]] == [
        ids[:end] for ids, end in zip(wholes, ends, strict=True)
    ]
    control = vocabulary.special.keys() - {vocabulary.encode("<unk>").ids[-1]}
    assert all(isinstance(prompt, Prompt) and control.isdisjoint(prompt.own_ids) for prompt in found[9_000:])
    assert encoder.neutralised == 1_000
