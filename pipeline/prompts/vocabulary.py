"""Stage 2's door to the model's tokenizer: a directory that save_pretrained wrote -> texts to ids and back."""

import hashlib
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Encoding, Tokenizer

from pipeline.errors import ModelError, RowError
from pipeline.prompts.names import only_by_name
from pipeline.prompts.plain import Place, PlainText
from pipeline.prompts.unfinished import finished, is_byte_level

_END = "<|the end, which no text and no model has|>"


class Vocabulary:
    """The tokenizer, without truncation and padding."""

    def __init__(self, directory: Path) -> None:
        """Raises ModelError for a file that is missing or broken."""
        config, text = _read_json(directory / "tokenizer_config.json"), _read(directory / "tokenizer.json")
        self.chat_template = _chat_template(directory, config)
        self.digest = hashlib.sha256(f"{text}\0{self.chat_template or ''}".encode()).hexdigest()
        self.special_tokens = _special_tokens(config)  #: by name, such as bos_token
        self._tokenizer = _load(text, directory)
        #: What tokenizer(text) puts first, such as one BOS, and what it puts last.
        self.opening_ids, self.closing_ids = _added_ids(self._tokenizer)
        self._tokenizer.post_processor = None  # it would take spaces out of offsets
        self.added: dict[int, AddedToken] = self._tokenizer.get_added_tokens_decoder()
        self.special = {i: token for i, token in self.added.items() if token.special}
        self._plain_names = [token.content for token in self.added.values() if not token.special]
        self.bos_id = self._named_id("bos_token")
        self.eos_id = self._named_id("eos_token")
        fields = json.loads(text)
        self._unk_ids = frozenset(i for i in (self._named_id("unk_token"), _unk_id(fields["model"])) if i is not None)
        self.plain = PlainText(self._tokenizer, self.special, self._unk_ids)
        self._byte_level = is_byte_level(fields["decoder"])
        self._only_by_name = only_by_name(fields, self.special.values())

    def decode(self, ids: Sequence[int]) -> str:
        """Text without special tokens."""
        return str(self._tokenizer.decode(list(ids), skip_special_tokens=True))

    def write(self, ids: Sequence[int]) -> str:
        """The same of an answer: where it ends amid a character, that one's bytes are left out, and not replaced."""
        text = self.decode(ids)
        if not text.endswith("\ufffd"):
            return text
        tokens = [self._tokenizer.id_to_token(each) for each in ids if each not in self.special]
        return str(self._tokenizer.decoder.decode(finished(filter(None, tokens), self._byte_level)))

    def show(self, ids: Sequence[int]) -> str:
        """Text with special tokens in it, for a person to check."""
        return str(self._tokenizer.decode(list(ids), skip_special_tokens=False))

    def unknown(self, ids: Sequence[int]) -> int | None:
        """The first of them that is of no token."""
        return next((each for each in ids if self._tokenizer.id_to_token(each) is None), None)

    def with_end(self) -> tuple[str, int]:
        """The tokenizer as JSON, with one special token more, the last, which no text and no model has; its id."""
        copy = Tokenizer.from_str(self._tokenizer.to_str())
        copy.add_special_tokens([AddedToken(_END, special=True)])
        return copy.to_str(), copy.get_vocab()[_END]

    def encode(self, text: str) -> Encoding:
        """The whole text, and special tokens in it taken as such: tokenizer(text) without its opening ids."""
        return self._tokenizer.encode(text, add_special_tokens=False)

    def ids(self, texts: Sequence[str]) -> list[list[int]]:
        """The same for many texts, ids only."""
        encodings = self._tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)
        return [encoding.ids for encoding in encodings]

    def special_spans(self, text: str) -> list[tuple[int, int, int]]:
        """Where special tokens stand in the text: (start, end, id), with the spaces that they swallow."""
        if self._only_by_name and not self.plain.holds_special(text):
            return []
        encoding = self.encode(text)
        return [
            (start, end, token_id)
            for token_id, (start, end) in zip(encoding.ids, encoding.offsets, strict=True)
            if token_id in self.special
            and (token_id not in self._unk_ids or text[start:end].strip() == self.special[token_id].content)
        ]

    def splits_at_spaces(self) -> bool:
        """Whether no token goes on over a space: then what stands before one is encoded alone."""
        words = self._tokenizer.get_vocab(with_added_tokens=False)
        return not any(re.search(r"[^▁ ][▁ ]", word) for word in words)

    def open_at_start(self, text: str) -> int:
        """Characters of its beginning that end an added token where another text stands before it."""
        return max(_open(text, self._plain_names), _open(text.lower(), [name.lower() for name in self._plain_names]))

    def open_at_end(self, text: str) -> int:
        """Characters of its end that begin an added token where another text stands behind it."""
        names = [name[::-1] for name in self._plain_names]
        return max(_open(text[::-1], names), _open(text[::-1].lower(), [name.lower() for name in names]))

    def encode_trusting(self, text: str, trusted: str) -> list[int]:
        """Special tokens count only where `trusted`, the text with its untrusted parts hidden, has them.

        Raises RowError where a hidden special token cannot be written as plain text.
        """
        ids: list[int] = []
        end, place = 0, Place.START
        for start, next_end, token_id in self.special_spans(trusted):
            ids += [*self._encode_plain(text[end:start], place), token_id]
            end, place = next_end, Place.AFTER_SPECIAL
        return ids + self._encode_plain(text[end:], place)

    def _encode_plain(self, text: str, place: Place) -> list[int]:
        (ids,) = self.plain.encode_batch([text], place)
        if isinstance(ids, RowError):
            raise ids
        return ids

    def _named_id(self, name: str) -> int | None:
        token = self.special_tokens.get(name)
        return None if token is None else self._tokenizer.token_to_id(token)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ModelError(f"The tokenizer's file {path} cannot be read: {error}.") from error


def _read_json(path: Path) -> dict[str, Any]:
    try:
        fields = json.loads(_read(path))
    except ValueError as error:
        raise ModelError(f"The tokenizer's file {path} is not JSON: {error}.") from error
    if not isinstance(fields, dict):
        raise ModelError(f"The tokenizer's file {path} holds no fields.")
    return fields


def _load(text: str, directory: Path) -> Tokenizer:
    try:
        tokenizer = Tokenizer.from_str(text)
    except Exception as error:  # the library raises no narrower class
        raise ModelError(f"The file {directory / 'tokenizer.json'} holds no tokenizer: {error}.") from error
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def _added_ids(tokenizer: Tokenizer) -> tuple[tuple[int, ...], tuple[int, ...]]:
    bare = tokenizer.encode("a", add_special_tokens=False).ids
    whole = tokenizer.encode("a").ids
    starts = range(len(whole) - len(bare) + 1)
    start = next((i for i in starts if whole[i : i + len(bare)] == bare), None)
    return ((), ()) if start is None else (tuple(whole[:start]), tuple(whole[start + len(bare) :]))


def _special_tokens(config: dict[str, Any]) -> dict[str, str]:
    more = config.get("extra_special_tokens")
    named = config | config.get("model_specific_special_tokens", {}) | (more if isinstance(more, dict) else {})
    contents = {name: part["content"] if isinstance(part, dict) else part for name, part in named.items()}
    return {name: text for name, text in contents.items() if name.endswith("_token") and isinstance(text, str)}


def _chat_template(directory: Path, config: dict[str, Any]) -> str | None:
    if (file := directory / "chat_template.jinja").is_file():
        return _read(file)
    template = config.get("chat_template")
    if isinstance(template, list):
        return {part["name"]: str(part["template"]) for part in template}.get("default")
    return template


def _open(text: str, names: Sequence[str]) -> int:
    """The longest end of a name, short of all of it, that the text begins with or that goes on beyond the text."""
    ends = (name[start:] for name in names for start in range(1, len(name)))
    found = (min(len(end), len(text)) for end in ends if text.startswith(end) or end.startswith(text))
    return max(found, default=0)


def _unk_id(model: dict[str, Any]) -> int | None:
    if "unk_id" in model:
        return None if model["unk_id"] is None else int(model["unk_id"])
    found = model["vocab"].get(model.get("unk_token"))
    return None if found is None else int(found)
