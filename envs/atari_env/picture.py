"""Pixels as a PNG picture, with the standard library alone."""

from __future__ import annotations

import base64
import os
import struct
import zlib
from dataclasses import dataclass
from typing import Self

_COLOUR_TYPE = {1: 0, 3: 2}


@dataclass(frozen=True)
class Picture:
    """A picture; notebooks show it.

    Attributes:
        png: It, as the bytes of a PNG file.
        width: In pixels.
        height: In pixels.
    """

    png: bytes
    width: int
    height: int

    @classmethod
    def of(cls, data: bytes, *, height: int, width: int, channels: int, scale: int = 1) -> Self:
        """A picture of ``data``, 8 bits for each channel, row by row.

        Args:
            data: ``height * width * channels`` bytes.
            height: Rows.
            width: Pixels of a row.
            channels: 3 for red, green and blue, 1 for grey.
            scale: Pixels of the picture, in each direction, for one of ``data``.

        Raises:
            ValueError: ``data`` has another length, or a number is not positive.
        """
        if scale < 1 or channels not in _COLOUR_TYPE or len(data) != height * width * channels or not data:
            raise ValueError(f"{len(data)} bytes are no picture of {height}x{width}x{channels} at scale {scale}")
        stride = width * channels
        rows = []
        for start in range(0, len(data), stride):
            row = data[start : start + stride]
            if scale > 1:
                wide = bytearray(stride * scale)
                for channel in range(channels):
                    for copy in range(scale):
                        wide[copy * channels + channel :: scale * channels] = row[channel::channels]
                row = bytes(wide)
            rows.append((b"\0" + row) * scale)
        header = struct.pack(">2I5B", width * scale, height * scale, 8, _COLOUR_TYPE[channels], 0, 0, 0)
        parts = (b"IHDR", header), (b"IDAT", zlib.compress(b"".join(rows), 6)), (b"IEND", b"")
        png = b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(kind, body) for kind, body in parts)
        return cls(png, width * scale, height * scale)

    def html(self) -> str:
        """It, as an element of a page."""
        data = base64.b64encode(self.png).decode("ascii")
        return f'<img src="data:image/png;base64,{data}" width="{self.width}" height="{self.height}">'

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it to the file ``path``."""
        with open(path, "wb") as file:
            file.write(self.png)

    def _repr_png_(self) -> bytes:
        return self.png

    def __repr__(self) -> str:
        return f"<Picture {self.width}x{self.height}, {len(self.png)} bytes of PNG>"


def _chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
