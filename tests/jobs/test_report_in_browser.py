"""The page of `pipeline report` as a real browser shows it, in light and in dark: the test looks at its pixels."""

import os
import shutil
import struct
import subprocess
import zlib
from pathlib import Path

import numpy as np
import pytest

BROWSER = os.environ.get("PIPELINE_TEST_BROWSER") or next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
WIDTH, HEIGHT = 1000, 2600
#: Of the style sheet: the paper, and the first two colours of plots.
LIGHT = ((255, 255, 255), (0x2A, 0x6F, 0xB8), (0xE0, 0x89, 0x2B))
DARK = ((0x14, 0x17, 0x1B), (0x5B, 0x9F, 0xE6), (0xF0, 0xA6, 0x58))

pytestmark = pytest.mark.skipif(
    BROWSER is None,
    reason="needs Chromium: install it (apt-get install chromium), or name one in PIPELINE_TEST_BROWSER",
)


def picture(page: Path, directory: Path, *flags: str) -> np.ndarray:
    """[height, width, 3] bytes of red, green and blue."""
    target = directory / "page.png"
    usual = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run")
    place = (f"--user-data-dir={directory / 'profile'}", f"--window-size={WIDTH},{HEIGHT}", f"--screenshot={target}")
    command = [
        str(BROWSER),
        *usual,
        "--hide-scrollbars",
        "--force-device-scale-factor=1",
        *place,
        *flags,
        page.as_uri(),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert target.is_file(), done.stderr
    return pixels(target.read_bytes())


def pixels(png: bytes) -> np.ndarray:
    """Of a PNG of 8 bits a channel, without a palette or interlacing (RFC 2083)."""
    width, height, depth, kind = struct.unpack(">IIBB", png[16:26])
    assert (depth, kind) in ((8, 2), (8, 6))
    channels, data, place = (3 if kind == 2 else 4), b"", 8
    while place < len(png):
        size, name = struct.unpack(">I4s", png[place : place + 8])
        data += png[place + 8 : place + 8 + size] if name == b"IDAT" else b""
        place += size + 12
    lines = np.frombuffer(zlib.decompress(data), np.uint8).reshape(height, 1 + width * channels)
    above = np.zeros(width * channels, np.uint8)
    rows = []
    for line in lines:
        above = _unfiltered(int(line[0]), line[1:], above, channels)
        rows.append(above)
    return np.stack(rows).reshape(height, width, channels)[..., :3]


def _unfiltered(kind: int, line: np.ndarray, above: np.ndarray, channels: int) -> np.ndarray:
    if kind == 0:
        return line
    if kind == 1:
        return line.reshape(-1, channels).cumsum(0, dtype=np.uint8).reshape(-1)
    if kind == 2:
        return line + above
    out, up = bytearray(line.tobytes()), above.tobytes()
    for at in range(len(out)):
        left, diagonal = (out[at - channels], up[at - channels]) if at >= channels else (0, 0)
        guess = (left + up[at]) // 2 if kind == 3 else _nearest(left, up[at], diagonal)
        out[at] = (out[at] + guess) & 255
    return np.frombuffer(bytes(out), np.uint8)


def _nearest(left: int, up: int, diagonal: int) -> int:
    """Paeth's."""
    guess = left + up - diagonal
    return min((left, up, diagonal), key=lambda value: abs(guess - value))


def covered(shot: np.ndarray, colour: tuple[int, int, int]) -> int:
    return int((shot == np.array(colour, np.uint8)).all(-1).sum())


@pytest.fixture
def page(desk, run, tmp_path):
    desk.done("night")
    file = tmp_path / "page.html"
    assert run("report", "night", "--output", str(file)).exit_code == 0
    return file


@pytest.mark.parametrize(("flags", "colours"), [((), LIGHT), (("--blink-settings=preferredColorScheme=0",), DARK)])
def test_a_person_sees_plots_on_paper(page, tmp_path, flags, colours):
    paper, first, second = colours
    shot = picture(page, tmp_path, *flags)
    assert shot.shape == (HEIGHT, WIDTH, 3)
    assert tuple(shot[2, 2]) == paper
    assert covered(shot, paper) > 0.5 * WIDTH * HEIGHT
    assert covered(shot, first) > 5000
    assert covered(shot, second) > 1000
    assert tuple(shot[:, -1].reshape(-1, 3).max(0)) == tuple(shot[:, -1].reshape(-1, 3).min(0)) == paper, "it fits"
