"""A proxy that treats HTTP badly: it drops, delays, duplicates and cuts, at random from a seed."""

from __future__ import annotations

import collections
import contextlib
import random
import socket
import threading
import time
from collections.abc import Iterator

#: What may happen to a call, and how often out of 100.
FAULTS = {
    "passed": 58,
    "delayed": 7,
    "request dropped": 6,
    "reply dropped": 6,
    "reply cut": 6,
    "duplicated": 6,
    "repeated later": 5,
    "502 before": 3,
    "502 after": 3,
}
_BAD_GATEWAY = (
    b"HTTP/1.1 502 Bad Gateway\r\nContent-Type: text/html\r\nContent-Length: 24\r\n\r\n<html>bad gateway</html>"
)


def read_message(source: socket.socket) -> bytes:
    """One request or reply with a length, as bytes; nothing where the other end has closed."""
    data = b""
    while b"\r\n\r\n" not in data:
        more = source.recv(1 << 16)
        if not more:
            return b""
        data += more
    head, _, body = data.partition(b"\r\n\r\n")
    lengths = [line[15:] for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
    size = int(lengths[0]) if lengths else 0
    while len(body) < size:
        more = source.recv(1 << 16)
        if not more:
            return b""
        body += more
    return head + b"\r\n\r\n" + body


class LossyProxy:
    """Stands between one client and the server at ``target``.

    Attributes:
        seen: How often each fault happened.
    """

    def __init__(self, target: tuple[str, int], seed: int) -> None:
        self._target = target
        self._chance = random.Random(seed)
        self._lock = threading.Lock()
        self._stale: list[bytes] = []
        self.seen: collections.Counter[str] = collections.Counter()

    def _forward(self, request: bytes) -> bytes:
        with socket.create_connection(self._target, timeout=20) as server:
            server.sendall(request)
            return read_message(server)

    def treat(self, request: bytes, client: socket.socket) -> bool:
        """Answer one request, well or badly; whether the connection lives on."""
        with self._lock:
            fault = self._chance.choices(list(FAULTS), list(FAULTS.values()))[0]
            share, pause = self._chance.random(), self._chance.uniform(0.001, 0.03)
            stale, self._stale = self._stale, []
            self.seen[fault] += 1
        if fault == "request dropped":
            return False
        if fault == "502 before":
            client.sendall(_BAD_GATEWAY)
            return True
        if fault == "delayed":
            time.sleep(pause)
        reply = self._forward(request)
        for old in stale:
            self._forward(old)  # arrives after its time; nobody waits for the answer
        if fault == "duplicated":
            again = self._forward(request)
            reply = again if share < 0.5 else reply
        elif fault == "repeated later":
            self._stale.append(request)
        elif fault == "reply dropped":
            return False
        elif fault == "502 after":
            reply = _BAD_GATEWAY
        elif fault == "reply cut":
            client.sendall(reply[: int(len(reply) * share)])
            return False
        client.sendall(reply)
        return True

    def serve(self, client: socket.socket) -> None:
        with client, contextlib.suppress(OSError):
            client.settimeout(60)
            while (request := read_message(client)) and self.treat(request, client):
                pass


@contextlib.contextmanager
def lossy(target: tuple[str, int], seed: int) -> Iterator[tuple[str, LossyProxy]]:
    """A proxy before ``target``, and its URL."""
    proxy = LossyProxy(target, seed)
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def accept() -> None:
            with contextlib.suppress(OSError):
                while True:
                    client, _ = listener.accept()
                    threading.Thread(target=proxy.serve, args=(client,), daemon=True).start()

        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}", proxy
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join(5)


def play(url: str, steps: int, seed: int) -> tuple[float, float, int]:
    """An episode of echo through ``url``: the reward that came, the one that was due, and the server's count."""
    from envs.echo_env import EchoAction, EchoEnv

    words = random.Random(seed)
    paid = due = 0.0
    with EchoEnv(url, request_timeout_s=60) as env:
        env.reset(seed=seed)
        for number in range(steps):
            message = f"{number} " + "é" * words.randrange(20)
            result = env.step(EchoAction(message=message))
            assert result.observation.echoed_message == message
            assert isinstance(result.reward, float)
            paid += result.reward
            due += len(message) * 0.1
        return paid, due, env.state().step_count
