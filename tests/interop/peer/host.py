"""Runs inside the peer's interpreter (or ours): imports it once, then forks a process for each server and each client.

`python -I host.py VERSION` reads one JSON request per line and answers each with one line:

    {"do": "serve", "env": NAME, "log": FILE, "options": {...}}  ->  {"pid": N, "address": "http://127.0.0.1:PORT"}
    {"do": "client", "url": URL, "log": FILE, "options": {...}}  ->  {"pid": N, "address": "127.0.0.1:PORT"}
    {"do": "signal", "pid": N, "signal": 9}                      ->  {"pid": N}
    {"do": "end", "pid": N}                                      ->  {"pid": N}

Every child ends when this process does, and this process ends with its standard input: nothing survives a test run,
however that ends. What it runs for a peer imports that peer and the standard library only.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import select
import signal
import sys
import threading
import traceback

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.append(HERE)

START_LIMIT_S = 20.0


def main(version: str) -> None:
    kit = load(version)
    lifeline, held = os.pipe()
    children: set[int] = set()
    say({"ready": version})
    for line in sys.stdin:
        request = json.loads(line)
        try:
            if request["do"] in ("serve", "client"):
                pid, address = fork(kit, request, lifeline, held)
                children.add(pid)
                answer = {"pid": pid, "address": address}
            elif request["pid"] not in children:
                answer = {"error": f"no such child: {request['pid']}"}
            elif request["do"] == "signal":
                os.kill(request["pid"], request["signal"])
                answer = {"pid": request["pid"]}
            else:
                end(request["pid"])
                children.discard(request["pid"])
                answer = {"pid": request["pid"]}
        except (OSError, RuntimeError) as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        say(answer)
    for pid in children:
        end(pid)


def load(version: str) -> object:
    """The names that this version has for what the environments need; "ours" is the package that is under test."""
    if version == "ours":
        sys.path.insert(0, os.path.abspath(os.path.join(HERE, *[os.pardir] * 3)))
        return importlib.import_module("tests.interop.ours")
    return importlib.import_module("era_http" if version == "0.1.1" else "era_websocket")


def say(answer: dict) -> None:
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


def fork(kit: object, request: dict, lifeline: int, held: int) -> tuple[int, str]:
    """Start the child and wait until it says where it listens."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(held)
        os.close(reading)
        child(kit, request, lifeline, writing)
    os.close(writing)
    try:
        readable, _, _ = select.select([reading], [], [], START_LIMIT_S)
        address = os.read(reading, 200).decode().removeprefix("OPENENV_READY ").strip() if readable else ""
    finally:
        os.close(reading)
    if not address:
        end(pid)
        with open(request["log"], errors="replace") as file:
            raise RuntimeError(f"{request['do']} {request.get('env', '')} did not start:\n{file.read()[-3000:]}")
    return pid, address


def child(kit: object, request: dict, lifeline: int, writing: int) -> None:
    """What the forked process does; it never returns."""
    try:
        log = os.open(request["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        null = os.open(os.devnull, os.O_RDONLY)
        for source, target in ((null, 0), (log, 1), (log, 2)):
            os.dup2(source, target)
        threading.Thread(target=die_with_parent, args=(lifeline,), daemon=True).start()
        options = request["options"]
        os.environ.update(options.pop("environ", {}))
        if request["do"] == "serve":
            import serving

            serving.run(kit, request["env"], options, options.pop("port", 0), writing)
        else:
            import calling

            calling.run(kit, request["url"], options, writing)
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


def die_with_parent(lifeline: int) -> None:
    os.read(lifeline, 1)  # nobody writes: it returns when the parent, which holds the other end, is gone
    os._exit(0)


def end(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError, ChildProcessError):
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


if __name__ == "__main__":
    main(sys.argv[1])
