"""Stage 2: text as nothing but text. What a person typed never becomes one of the model's special tokens."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any

from tokenizers import AddedToken, Encoding, Tokenizer

from pipeline.errors import RowError


class Place(StrEnum):
    """Where a text stands: some tokenizers put a space before the first word, depending on it."""

    START = "start"  #: first of all
    AFTER_SPECIAL = "after special"  #: right behind a special token
    MIDDLE = "middle"  #: behind other text


class PlainText:
    """The tokenizer with its special tokens switched off; added tokens that are not special still count."""

    def __init__(self, tokenizer: Tokenizer, special: Mapping[int, AddedToken], unk_ids: frozenset[int]) -> None:
        self._tokenizers = _tokenizers(tokenizer)
        self._names = {token_id: token.content for token_id, token in special.items()}
        self._unk_ids = unk_ids
        self._special_text = _any_of(token.content for token in special.values())

    def holds_special(self, text: str) -> bool:
        """Whether a special token's name is written in the text."""
        return self._special_text.search(text) is not None

    def encode(self, text: str, place: Place) -> Encoding:
        """Ids, and offsets that count the text's characters."""
        return self._tokenizers[place].encode(text, add_special_tokens=False)

    def encode_batch(self, texts: Sequence[str], place: Place) -> list[list[int] | RowError]:
        encodings = self._tokenizers[place].encode_batch_fast(list(texts), add_special_tokens=False)
        special = self._names.keys()
        return [
            ids if special.isdisjoint(ids := encoding.ids) else self._checked(text, place)
            for text, encoding in zip(texts, encodings, strict=True)
        ]

    def _checked(self, text: str, place: Place) -> list[int] | RowError:
        """Some models spell a special token's name with its own id even so; such a name is cut in two."""
        encoding = self.encode(text, place)
        names = self._special_names(text, encoding)
        ends = [start + (end - start + 1) // 2 for start, end in names]
        parts = [text[start:end] for start, end in zip([0, *ends], [*ends, len(text)], strict=True)]
        encodings = [self.encode(part, Place.MIDDLE if at else place) for at, part in enumerate(parts)]
        if not any(self._special_names(*pair) for pair in zip(parts, encodings, strict=True)):
            return [token_id for encoding in encodings for token_id in encoding.ids]
        return RowError(
            "special_token",
            "The row's text holds a special token of the model that its tokenizer cannot write as plain text. "
            "Take it out of the text.",
        )

    def _special_names(self, text: str, encoding: Encoding) -> list[tuple[int, int]]:
        """Where the text has become a special token; the one for unknown text may stand for any other text."""
        return [
            (start, end)
            for token_id, (start, end) in zip(encoding.ids, encoding.offsets, strict=True)
            if (name := self._names.get(token_id)) is not None
            and (token_id not in self._unk_ids or text[start:end].strip() == name)
        ]


def _any_of(texts: Iterable[str]) -> re.Pattern[str]:
    longest_first = sorted(texts, key=len, reverse=True)
    return re.compile("|".join(map(re.escape, longest_first)) or r"(?!)")


def _tokenizers(tokenizer: Tokenizer) -> dict[Place, Tokenizer]:
    """One copy serves all places where the place changes nothing."""
    start = json.loads(tokenizer.to_str())
    after = start | {"pre_tokenizer": _without_first_space(start["pre_tokenizer"], {"first"})}
    middle = start | {
        "pre_tokenizer": _without_first_space(start["pre_tokenizer"], {"first", "always"}),
        "normalizer": _without_prepend(start["normalizer"]),
    }
    copies: dict[str, Tokenizer] = {}
    chosen = {}
    for place, parts in ((Place.START, start), (Place.AFTER_SPECIAL, after), (Place.MIDDLE, middle)):
        key = json.dumps([parts["pre_tokenizer"], parts["normalizer"]])
        if key not in copies:
            copies[key] = Tokenizer.from_str(json.dumps(parts))
            copies[key].encode_special_tokens = True
        chosen[place] = copies[key]
    return chosen


def _without_first_space(part: Any, schemes: set[str]) -> Any:
    if part is None:
        return None
    if part["type"] == "Sequence":
        return part | {"pretokenizers": [_without_first_space(each, schemes) for each in part["pretokenizers"]]}
    if part["type"] == "Metaspace" and part["prepend_scheme"] in schemes:
        return part | {"prepend_scheme": "never"}
    if part["type"] == "ByteLevel" and "always" in schemes:
        return part | {"add_prefix_space": False}
    return part


def _without_prepend(part: Any) -> Any:
    if part is None or part["type"] == "Prepend":
        return None
    if part["type"] == "Sequence":
        kept = (_without_prepend(each) for each in part["normalizers"])
        return part | {"normalizers": [each for each in kept if each is not None]}
    return part
