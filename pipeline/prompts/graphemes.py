"""Stage 2: where a text may be cut: never within what a reader sees as one character (UAX 29, by the regex package)."""

from collections.abc import Iterator

import regex

#: Characters.
_PIECE = 128
_CLUSTER = regex.compile(r"\X")
#: A character that always begins a cluster, so that the clusters after it can be found from it; the latest one first.
#: An emoji and a consonant may be joined to the one before, if only by a mark; any other only to a sign that says so.
_ANCHOR = regex.compile(
    r"""(?rxV1)
      [\r\p{Grapheme_Cluster_Break=Control}] | (?<!\r) \n
    | (?<! \p{Grapheme_Cluster_Break=Prepend} )
      [[\p{Grapheme_Cluster_Break=Other}\p{Grapheme_Cluster_Break=Prepend}]
       --[\p{Extended_Pictographic}\p{Indic_Conjunct_Break=Consonant}]]
    | (?<! [\p{Grapheme_Cluster_Break=Prepend}\p{Grapheme_Cluster_Break=Extend}\p{Grapheme_Cluster_Break=ZWJ}] )
      \p{Grapheme_Cluster_Break=Other}
    """
)


def cluster(text: str, at: int, known: int = 0) -> tuple[int, int]:
    """Start (included) and end (excluded) of the one that holds the character `at`; at `known` begins one, too."""
    anchor = _ANCHOR.search(text, known, at)
    start = anchor.start() if anchor else known
    return next(((start, end) for start, end in _clusters(text, start) if end > at), (len(text), len(text)))


def _clusters(text: str, start: int) -> Iterator[tuple[int, int]]:
    """Piece by piece: at each flag the package looks back at all flags that stand before it."""
    size = _PIECE
    while start < len(text):
        begin, piece = start, text[start : start + size]
        for found in _CLUSTER.finditer(piece):
            if found.end() == len(piece) and begin + size < len(text):
                break  # it may go on
            start = begin + found.end()
            yield begin + found.start(), start
        size = _PIECE if start > begin else 2 * size


def is_boundary(text: str, at: int) -> bool:
    return at in (0, len(text)) or cluster(text, at)[0] == at
