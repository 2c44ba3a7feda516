"""Stage 2: what a chat template puts around a message, found by rendering a mark and proven on whole renders."""

import itertools
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from pipeline.errors import JobError

Render = Callable[[str], str]  #: a message's content -> the whole chat

MARK = "\U000f0000"


@dataclass(frozen=True, slots=True)
class Frame:
    """The whole is head + content + tail, the content trimmed or not."""

    head: str = ""
    tail: str = ""
    trims_left: bool = False
    trims_right: bool = False

    def wrap(self, content: str) -> str:
        content = content.lstrip() if self.trims_left else content
        content = content.rstrip() if self.trims_right else content
        return self.head + content + self.tail


def find_frame(render: Render, contents: Iterable[str]) -> Frame | None:
    """None where no frame gives the same as `render` for all contents: the template looks at the message."""
    parts = render(MARK).split(MARK)
    if len(parts) != 2:
        return None
    try:
        proofs = [(content, render(content)) for content in contents]
    except JobError:
        return None
    for trims_left, trims_right in itertools.product((False, True), repeat=2):
        frame = Frame(parts[0], parts[1], trims_left, trims_right)
        if all(frame.wrap(content) == whole for content, whole in proofs):
            return frame
    return None
