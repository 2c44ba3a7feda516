"""A page as a parser reads it: whether each element is closed, what it points to, and the cells of its tables."""

from html.parser import HTMLParser

#: Elements without an end.
VOID = {"meta", "link", "br", "img", "input"}


class Page(HTMLParser):
    """`texts` are those of elements, by their name; `tables` by the heading above them, without the head."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, list[str]] = {}
        self.tables: dict[str, list[list[str]]] = {}
        self.feed(text)
        self.close()
        assert not self.open, self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag in VOID:
            return
        self.open.append(tag)
        self.texts.setdefault(tag, []).append("")
        if tag == "tbody":
            self.tables[self._heading] = []
        if tag == "tr" and "tbody" in self.open:
            self._rows.append([])
        if tag in ("td", "th") and "tbody" in self.open:
            self._rows[-1].append("")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        for tag in set(self.open):
            self.texts[tag][-1] += data
        if "tbody" in self.open and self.open[-1] in ("td", "th"):
            self._rows[-1][-1] += data

    @property
    def _heading(self) -> str:
        return self.texts.get("h2", self.texts["h1"])[-1]

    @property
    def _rows(self) -> list[list[str]]:
        return self.tables[self._heading]

    def addresses(self) -> set[str]:
        """All that a browser might fetch or go to."""
        names = ("src", "href", "xlink:href", "action", "data", "poster", "srcset")
        return {value for _, attributes in self.elements for name in names if (value := attributes.get(name))}
