"""Messages between the server and the supervisor: a length and a JSON object."""

from __future__ import annotations

import json
import socket
import struct
from typing import Any

_LENGTH = struct.Struct(">I")


def send(sock: socket.socket, message: dict[str, Any]) -> None:
    """Send one message."""
    data = json.dumps(message).encode("ascii")
    sock.sendall(_LENGTH.pack(len(data)) + data)


def receive(sock: socket.socket) -> dict[str, Any] | None:
    """The next message, or ``None`` when the other end is gone."""
    head = exactly(sock, _LENGTH.size)
    body = None if head is None else exactly(sock, _LENGTH.unpack(head)[0])
    if body is None:
        return None
    message: dict[str, Any] = json.loads(body)
    return message


def exactly(sock: socket.socket, count: int) -> bytes | None:
    """The next ``count`` bytes, or ``None`` when the other end is gone before."""
    data = bytearray()
    while len(data) < count:
        try:
            more = sock.recv(count - len(data))
        except ConnectionResetError:
            return None
        if not more:
            return None
        data += more
    return bytes(data)
