"""Stage 1, what a person names: files, folders and patterns, on this machine or behind a URL, as the files they are."""

import re
from collections.abc import Callable, Iterable
from fnmatch import translate
from glob import glob
from pathlib import Path, PurePosixPath
from urllib.parse import quote, unquote

from pipeline.errors import InputError
from pipeline.ingest.faults import reading
from pipeline.ingest.formats import is_supported
from pipeline.ingest.places import exists, files_below, is_folder, is_url, join, local_path
from pipeline.ingest.saved_dataset import dataset_files

_PATTERN = re.compile(r"[*?\[]")
#: In a URL the question mark begins its options.
_URL_PATTERN = re.compile(r"[*\[]")


def listed(name: str) -> list[str]:
    """The places of its files, in their order. Raises InputError, or TryAgain where they cannot be told just now."""
    path = local_path(name)
    if path is None:
        return _listed_behind(name)
    if path.is_dir():
        return dataset_files(str(path)) or _supported_on_disk(path)
    if path.is_file():
        return [str(path)]
    if path.exists():
        raise InputError(f"{name} is neither a file nor a folder. For a pipe, give JSON Lines on standard input (-).")
    if not _PATTERN.search(str(path)):
        raise InputError(f"{name} does not exist. Check the name, and the folder that you are in.")
    found = sorted(Path(match) for match in glob(str(path), recursive=True))  # noqa: PTH207 - Path.glob takes no absolute pattern
    if files := [str(path) for path in found if path.is_file()]:
        return files
    raise InputError(f"No file matches the pattern {name}. Check it, and the folder that you are in.")


def _listed_behind(url: str) -> list[str]:
    plain, mark, options = url.partition("?")
    if _URL_PATTERN.search(plain):
        # What stands before the first folder that is a pattern is where to look.
        start = plain.rindex("/", 0, _URL_PATTERN.search(plain).start())  # type: ignore[union-attr]
        folder, matches = plain[:start] + mark + options, _matcher(unquote(plain[start + 1 :]))
        if files := _joined(folder, matches):
            return files
        raise InputError(f"No file matches the pattern {url}. Check it, and that this machine may list what is there.")
    if is_folder(url):
        return dataset_files(url) or _joined(url, _is_ours) or _nothing_in(url)
    if exists(url):
        return [url]
    raise InputError(f"{url} does not exist. Check the name.")


def _joined(folder: str, wanted: Callable[[str], bool]) -> list[str]:
    return [join(folder, quote(name)) for name in files_below(folder) if wanted(name)]


def _matcher(pattern: str) -> Callable[[str], bool]:
    """As in a shell: * stays within a folder, ** is any number of them."""
    parts = [r"(?:[^/]+/)*" if part == "**" else _of_part(part) + "/" for part in pattern.split("/")]
    whole = re.compile("".join(parts).removesuffix("/"))
    return lambda name: whole.fullmatch(name) is not None


def _of_part(part: str) -> str:
    return translate(part).removeprefix("(?s:").removesuffix(r")\Z").replace(".*", "[^/]*")


def _supported_on_disk(directory: Path) -> list[str]:
    names = [path.relative_to(directory) for path in sorted(directory.rglob("*")) if path.is_file()]
    files = [str(directory / name) for name in names if _is_ours(name.as_posix())]
    return files or _nothing_in(str(directory))


def _is_ours(name: str) -> bool:
    """Names that begin with a dot or an underscore are other programs' notes, as in Spark's folders."""
    return is_supported(name) and not any(part.startswith((".", "_")) for part in PurePosixPath(name).parts)


def _nothing_in(folder: str) -> list[str]:
    raise InputError(f"There is no file of a supported kind in the folder {folder}.")


def distinct(names: Iterable[str]) -> list[str]:
    """All their files. Raises InputError for one that is given twice."""
    places: dict[str, str] = {}
    for name in names:
        with reading(name):
            found = listed(name)
        for place in found:
            same = place if is_url(place) else str(Path(place).resolve())
            if same in places:
                raise InputError(f"{place} is given twice, so its rows would be answered twice. Give every file once.")
            places[same] = place
    return list(places.values())
