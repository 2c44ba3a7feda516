"""Where an answer ends amid a character: its last tokens write some of that character's bytes, and none the others."""

import codecs
import re
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any

from tokenizers.pre_tokenizers import ByteLevel

_BYTE = re.compile("<0x([0-9A-F]{2})>")


def is_byte_level(decoder: dict[str, Any] | None) -> bool:
    """A tokenizer's decoder, as its JSON has it. Others that write single bytes have tokens such as <0xE2> for them."""
    return decoder is not None and "ByteLevel" in {part["type"] for part in (decoder, *decoder.get("decoders", ()))}


def finished(tokens: Iterable[str], byte_level: bool) -> list[str]:
    """Tokens that write the same, without the first bytes of a character at its end."""
    pieces = [piece for token in tokens for piece in (_characters(token) if byte_level else _whole(token))]
    reader = codecs.getincrementaldecoder("utf-8")("replace")
    reader.decode(b"".join(written for _, written in pieces))
    waiting, _ = reader.getstate()
    return [piece for piece, _ in pieces[: len(pieces) - len(waiting)]]


def _characters(token: str) -> Iterator[tuple[str, bytes]]:
    """Parts of a token, of which each writes one byte."""
    if all(character in _byte_level() for character in token):
        yield from ((character, _byte_level()[character]) for character in token)
    else:
        yield token, token.encode()


def _whole(token: str) -> Iterator[tuple[str, bytes]]:
    byte = _BYTE.fullmatch(token)
    yield token, bytes.fromhex(byte[1]) if byte else token.encode()


@cache
def _byte_level() -> dict[str, bytes]:
    """GPT-2's alphabet: a byte that Latin-1 prints is that character, the others are those beyond, in their order."""
    alphabet = set(ByteLevel.alphabet())
    own = {character for character in alphabet if ord(character) < 256}
    left = sorted(set(range(256)) - set(map(ord, own)))
    others = zip(sorted(alphabet - own), left, strict=True)
    return {character: character.encode("latin-1") for character in own} | {
        character: bytes([byte]) for character, byte in others
    }
