"""Stage 2: which sentences of a text say the most, by what stands in the text itself: no model, no other row."""

import heapq
import math
from collections import Counter
from collections.abc import Sequence

import regex

#: A Chinese character counts as a word, as nothing parts them.
_WORD = regex.compile(r"\p{Han}|\w(?:[\w'’.,-]*\w)?")
_NUMBER = regex.compile(r"\p{N}")

_USUAL, _LONG_WORD, _NAME, _FIGURE = 1.0, 1.5, 2.0, 3.0
#: Letters of a word that is long.
_LONG = 8
#: Added to each sentence's tokens, so that a word alone is not the best sentence.
_BESIDES = 4


def most_salient(sentences: Sequence[str], tokens: Sequence[int], most: int) -> list[int]:
    """Places of sentences that together have `most` of the `tokens` at most, in the order in which they are picked.

    Next comes what says the most for its tokens that no picked one has said; of equals the earlier one. A word weighs
    as much as it is rare: the logarithm of all sentences to those that hold it (inverse document frequency, Spärck
    Jones 1972, a sentence being the document). Numbers, names and long words weigh more.
    """
    words = [_words(sentence) for sentence in sentences]
    holders = Counter(word for found in words for word in found)
    rarity = {word: math.log1p(len(sentences) / held) for word, held in holders.items()}
    said: set[str] = set()
    picked: list[int] = []

    def loss(place: int) -> float:
        new = (weight * rarity[word] for word, weight in words[place].items() if word not in said)
        return -sum(new) / (tokens[place] + _BESIDES)

    # What is picked can only make the others say less: only the best is to be weighed again (Minoux 1978).
    waiting = [(loss(place), place) for place in range(len(sentences))]
    heapq.heapify(waiting)
    while waiting:
        _, place = heapq.heappop(waiting)
        if tokens[place] > most:
            continue
        if waiting and waiting[0] < (again := (loss(place), place)):
            heapq.heappush(waiting, again)
            continue
        picked.append(place)
        said |= words[place].keys()
        most -= tokens[place]
    return picked


def _words(sentence: str) -> dict[str, float]:
    """What each word weighs by its kind, where it stands first."""
    weights: dict[str, float] = {}
    for place, word in enumerate(_WORD.findall(sentence)):
        lower = word.lower()
        if lower not in weights:
            # Any word that opens a sentence has a capital, so only one further on tells.
            told = 1 if place == 0 else 0
            weights[lower] = _weight(word, has_capital=word[told:] != lower[told:])
    return weights


def _weight(word: str, *, has_capital: bool) -> float:
    if not word.isalpha() and _NUMBER.search(word):
        return _FIGURE
    if has_capital:
        return _NAME
    return _LONG_WORD if len(word) >= _LONG else _USUAL
