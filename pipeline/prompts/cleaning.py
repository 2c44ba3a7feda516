"""Stage 2: a column's text made clean before anything else sees it, as far as a job asks for that."""

import html
import unicodedata
from dataclasses import dataclass
from html.entities import html5
from typing import Literal

import regex

#: A whole one. Browsers take some without the semicolon, which would spoil "?a=1&copy=2" in a text.
_ENTITY = regex.compile(r"&(?:#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6}|([A-Za-z][A-Za-z0-9]*));")

#: What cannot be seen goes, white space aside; what is kept of it, in group 1, is what shapes its neighbours:
#: a flag spelt in tags, a joiner behind a letter of a script that joins letters or stacks them, a joiner between emoji,
#: and the first variation selector behind something that has variants. What looks back at many stands behind what few
#: are, as selectors are marks themselves.
_INVISIBLE = regex.compile(
    r"""(?xV1)
    (   \U0001F3F4 [\U000E0020-\U000E007E]{1,6} \U000E007F
      | [\u200C\u200D\u180E]
        (?<= [\p{L}--[\p{Latin}\p{Greek}\p{Cyrillic}\p{Armenian}\p{Georgian}\p{Hebrew}\p{Thai}\p{Han}\p{Hiragana}
                      \p{Katakana}\p{Hangul}\p{Common}]] \p{M}* . )
      | (?<= \p{Extended_Pictographic} [\p{Emoji_Modifier}\uFE0F]? ) \u200D (?= \p{Extended_Pictographic} )
      | (?<= [[\p{L}\p{M}\p{N}\p{P}\p{S}]--\p{Default_Ignorable_Code_Point}] ) \p{Variation_Selector}
    )
    | [[\p{Default_Ignorable_Code_Point}\p{Cc}\p{Cf}]--[\p{L}\p{White_Space}\p{Prepended_Concatenation_Mark}]]
    """
)

#: Marks on one letter that are put in order together: the time that takes grows with the square of their number.
_MARKS = regex.compile(r"\p{M}{256}")


@dataclass(frozen=True, slots=True)
class Cleaning:
    """Nothing, unless it is asked for."""

    normalize: Literal["nfc", "nfkc"] | None = None
    strip_invisible: bool = False
    unescape_html: bool = False

    def clean(self, text: str) -> str:
        """Entities first, as they may stand for what the others look for."""
        if self.unescape_html:
            text = _ENTITY.sub(_character, text)
        if self.strip_invisible:
            text = _INVISIBLE.sub(r"\1", text)
        if self.normalize:
            text = _normalized(text, "NFC" if self.normalize == "nfc" else "NFKC")
        return text


def _character(entity: "regex.Match[str]") -> str:
    name = entity.group(1)
    return html.unescape(entity.group()) if name is None else html5.get(f"{name};", entity.group())


def _normalized(text: str, form: Literal["NFC", "NFKC"]) -> str:
    ends = [run.end() for run in _MARKS.finditer(text)]
    parts = zip([0, *ends], [*ends, len(text)], strict=True)
    return "".join(unicodedata.normalize(form, text[start:end]) for start, end in parts)
