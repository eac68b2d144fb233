"""Refuses lists as keys of MessagePack maps: tuples of numbers can be made to collide in a dict, and so to hang it."""

from __future__ import annotations

import re
import struct
from struct import unpack_from

#: Below this, even keys that all collide cost nothing.
_MANY = 64
_BIG_MAPS = ((b"\xde", ">H", 3), (b"\xdf", ">I", 5))
#: Looking at more of these bytes costs more than reading the message, which steps over the pixels of a picture.
_FEW = 16
_ONE_BYTE = re.compile(rb"[\x00-\x7f\xc0\xc2\xc3\xe0-\xff]*")
_FIXED = {
    **dict.fromkeys((0xCC, 0xD0), 2),
    **dict.fromkeys((0xCD, 0xD1, 0xD4), 3),
    0xD5: 4,
    **dict.fromkeys((0xCA, 0xCE, 0xD2), 5),
    0xD6: 6,
    **dict.fromkeys((0xCB, 0xCF, 0xD3), 9),
    0xD7: 10,
    0xD8: 18,
}
#: The head of what says its own size: the format of the size, and the length of the head.
_SIZED = {
    **dict.fromkeys((0xC4, 0xD9), (">B", 2)),
    **dict.fromkeys((0xC5, 0xDA), (">H", 3)),
    **dict.fromkeys((0xC6, 0xDB), (">I", 5)),
    0xC7: (">B", 3),
    0xC8: (">H", 4),
    0xC9: (">I", 6),
}


def refuse_list_keys(data: bytes | bytearray) -> None:
    """Check a whole message; malformed ones are left to the decoder.

    Raises:
        ValueError: Lists are keys.
    """
    if not _may_hold_a_big_map(data):
        return
    at = 0
    waiting: list[tuple[int, bool]] = [(1, False)]  # how many items are to come in each open container; is it a map
    try:
        while waiting:
            left, is_map = waiting.pop()
            if not is_map and (run := min(_ONE_BYTE.match(data, at).end() - at, left)):  # type: ignore[union-attr]
                at, left = at + run, left - run
            if not left:
                continue
            if left > 1:
                waiting.append((left - 1, is_map))
            kind = data[at]
            opened = 0
            if 0x80 <= kind <= 0x9F:
                opened, at = kind & 0x0F, at + 1
            elif 0xDC <= kind <= 0xDF:
                opened = unpack_from(">I" if kind & 1 else ">H", data, at + 1)[0]
                at += 5 if kind & 1 else 3
            elif 0xA0 <= kind <= 0xBF:
                at += 1 + (kind & 0x1F)
            elif kind in _FIXED:
                at += _FIXED[kind]
            elif kind in _SIZED:
                code, head = _SIZED[kind]
                at += head + unpack_from(code, data, at + 1)[0]
            else:
                at += 1
            is_list = 0x90 <= kind <= 0x9F or kind in (0xDC, 0xDD)
            if is_list and is_map and left % 2 == 0:
                raise ValueError("lists cannot be keys")
            if opened:
                waiting.append((opened if is_list else 2 * opened, not is_list))
    except (IndexError, struct.error):
        return


def _may_hold_a_big_map(data: bytes | bytearray) -> bool:
    """Whether somewhere there may be the head of a map with many keys, for which there would also be room."""
    seen = 0
    for mark, code, head in _BIG_MAPS:
        at = data.find(mark)  # not re: that takes a hundred times as long for a picture
        while at >= 0:
            seen += 1
            if seen > _FEW:
                return True
            if len(data) >= at + head and _MANY <= unpack_from(code, data, at + 1)[0] <= (len(data) - at - head) // 2:
                return True
            at = data.find(mark, at + 1)
    return False
