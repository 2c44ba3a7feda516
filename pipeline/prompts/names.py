"""Stage 2: whether a tokenizer makes a special token of nothing but its name, so that a look for names tells all."""

import re
from collections.abc import Collection
from typing import Any

from tokenizers import AddedToken

_BYTE = re.compile("<0x[0-9A-F]{2}>")


def only_by_name(tokenizer: dict[str, Any], special: Collection[AddedToken]) -> bool:
    """For a tokenizer as its JSON has it. Where this is False, other text may become one of the special tokens."""
    if any(token.normalized or _BYTE.fullmatch(token.content) for token in special):
        return False
    model = tokenizer["model"]
    pieces = model["vocab"] if isinstance(model["vocab"], dict) else {piece for piece, _ in model["vocab"]}
    if not any(token.content in pieces for token in special):
        return True
    # The model itself might spell one, which takes the same characters, where none is changed before it sees them.
    return (
        model["type"] == "BPE"
        and not model.get("continuing_subword_prefix")
        and not model.get("end_of_word_suffix")
        and all(token.content.isascii() and token.content.isprintable() for token in special)
        and _keeps_all_but_spaces(tokenizer["normalizer"])
    )


def _keeps_all_but_spaces(normalizer: Any) -> bool:
    match normalizer:
        case None | {"type": "Prepend", "prepend": "▁"}:
            return True
        case {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}:
            return True
        case {"type": "Sequence", "normalizers": list(parts)}:
            return all(map(_keeps_all_but_spaces, parts))
    return False
