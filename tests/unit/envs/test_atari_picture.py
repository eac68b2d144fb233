"""Screens as PNG pictures."""

from __future__ import annotations

import base64
import re
import struct
import zlib
from pathlib import Path

import pytest

from envs.atari_env import AtariObservation
from envs.atari_env.picture import Picture


def pixels(png: bytes) -> tuple[int, int, int, list[bytes]]:
    """Width, height, colour type and rows of a PNG without filters; every checksum is checked."""
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    chunks, place = {}, 8
    while place < len(png):
        (length,), kind = struct.unpack_from(">I", png, place), png[place + 4 : place + 8]
        body = png[place + 8 : place + 8 + length]
        assert struct.unpack_from(">I", png, place + 8 + length) == (zlib.crc32(kind + body),)
        chunks[kind] = body
        place += 12 + length
    assert list(chunks) == [b"IHDR", b"IDAT", b"IEND"]
    width, height, depth, colour = struct.unpack_from(">2I2B", chunks[b"IHDR"])
    assert depth == 8
    data = zlib.decompress(chunks[b"IDAT"])
    stride = len(data) // height
    rows = [data[start : start + stride] for start in range(0, len(data), stride)]
    assert all(row[0] == 0 for row in rows)
    return width, height, colour, [row[1:] for row in rows]


def seen(shape: list[int], screen: list[int]) -> AtariObservation:
    return AtariObservation(screen=screen, screen_shape=shape, legal_actions=[0])


def test_a_picture_has_the_pixels_of_the_screen() -> None:
    picture = seen([2, 2, 3], list(range(12))).render(scale=1)
    assert pixels(picture.png) == (2, 2, 2, [bytes(range(6)), bytes(range(6, 12))])
    assert (picture.width, picture.height) == (2, 2)


def test_grey_screens_are_grey_pictures() -> None:
    assert pixels(seen([2, 3], list(range(6))).render(scale=1).png) == (3, 2, 0, [b"\0\1\2", b"\3\4\5"])


def test_a_scaled_picture_repeats_each_pixel_in_both_directions() -> None:
    row = bytes([1, 2, 3] * 2 + [4, 5, 6] * 2)
    assert pixels(seen([1, 2, 3], [1, 2, 3, 4, 5, 6]).render(scale=2).png) == (4, 2, 2, [row, row])


def test_memory_is_shown_as_8_rows_of_16() -> None:
    width, height, colour, rows = pixels(seen([128], list(range(128))).render(scale=1).png)
    assert (width, height, colour) == (16, 8, 0)
    assert b"".join(rows) == bytes(range(128))


def test_a_notebook_gets_the_picture_as_html() -> None:
    html = seen([1, 2, 3], [9] * 6)._repr_html_()
    (data,) = re.findall(r'src="data:image/png;base64,([^"]+)"', html)
    assert pixels(base64.b64decode(data))[:2] == (4, 2)
    assert "lives 0" in html


def test_a_notebook_shows_a_picture_by_itself() -> None:
    picture = seen([1, 2, 3], [9] * 6).render()
    assert picture._repr_png_() == picture.png
    assert repr(picture).startswith("<Picture 4x2, ")


def test_no_screen_is_said_in_words() -> None:
    nothing = seen([], [])
    assert "no screen" in nothing._repr_html_()
    with pytest.raises(ValueError, match="cannot be shown"):
        nothing.render()


def test_a_picture_is_saved_as_a_file(tmp_path: Path) -> None:
    picture = Picture.of(bytes(12), height=2, width=2, channels=3)
    picture.save(tmp_path / "a.png")
    assert (tmp_path / "a.png").read_bytes() == picture.png


@pytest.mark.parametrize(("data", "scale"), [(b"", 1), (bytes(11), 1), (bytes(12), 0)])
def test_what_is_no_picture_is_refused(data: bytes, scale: int) -> None:
    with pytest.raises(ValueError, match="no picture"):
        Picture.of(data, height=2, width=2, channels=3, scale=scale)
