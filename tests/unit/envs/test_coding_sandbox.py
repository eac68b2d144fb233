"""Code that tries to get away or to take too much ends in an observation, and the session goes on.

Nothing here can harm the machine where a limit fails: what multiplies without end is in ``tests/docker``.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from envs.coding_env import CodeAction, CodeObservation
from envs.coding_env.server.environment import CodingEnvironment
from envs.coding_env.server.sandbox import channel, processes
from envs.coding_env.server.settings import Settings

_LINUX = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux can filter system calls")


@pytest.fixture(scope="module")
def shared() -> Iterator[CodingEnvironment]:
    env = CodingEnvironment(Settings(timeout_s=5, processes=12))
    yield env
    env.close()


@pytest.fixture
def env(shared: CodingEnvironment) -> CodingEnvironment:
    shared.reset()
    return shared


def run(env: CodingEnvironment, code: str) -> CodeObservation:
    return env.step(CodeAction(code))


def lives(env: CodingEnvironment) -> bool:
    return run(env, "print('alive')").stdout == "alive\n"


@pytest.mark.parametrize(
    ("code", "exit_code", "told"),
    [
        ("import os; os._exit(0)", 1, "exited with code 0 in the middle"),
        ("import os; os._exit(7)", 7, "exited with code 7 in the middle"),
        ("import os; os.abort()", 134, "killed by SIGABRT"),
        ("import ctypes; ctypes.string_at(0)", 139, "killed by SIGSEGV"),
        ("import os; os.kill(os.getpid(), 9)", 137, "killed by SIGKILL"),
        ("import os; os.kill(0, 15)", 143, "killed by SIGTERM"),
        ("import os\nwhile True: os.kill(os.getpid(), 9)", 137, "killed by SIGKILL"),
        ("import os, sys\nprint('before')\nsys.stdout.flush()\nos.execvp('false', ['false'])", 1, "exited with code 1"),
    ],
)
def test_an_interpreter_that_dies_is_told_and_replaced(
    env: CodingEnvironment, code: str, exit_code: int, told: str
) -> None:
    run(env, "x = 1")
    seen = run(env, code)
    assert seen.exit_code == exit_code
    assert told in seen.stderr
    assert "variables are lost and the next step begins with a new one" in seen.stderr
    assert seen.metadata == {"variables_lost": True}
    assert env.state.last_exit_code == exit_code
    assert run(env, "x").exit_code == 1
    assert lives(env)


def test_an_interpreter_that_dies_between_two_steps_is_told_with_the_next(env: CodingEnvironment) -> None:
    run(env, "import os, threading, time\ndef end():\n    time.sleep(0.1)\n    os._exit(0)")
    run(env, "threading.Thread(target=end).start()")
    supervisor = env._interpreter._process
    assert supervisor is not None
    while processes.below(supervisor.pid):
        time.sleep(0.01)
    seen = run(env, "print('new')")
    assert (seen.stdout, seen.exit_code) == ("new\n", 0)
    assert "ended between two steps; variables are lost" in seen.stderr
    assert seen.metadata == {"variables_lost": True}
    assert run(env, "pass").metadata == {}


@pytest.mark.parametrize(
    "code", ["x = bytearray(4 << 30)", "x = []\nwhile True: x.append(bytearray(10 << 20))", "x = 'a' * (4 << 30)"]
)
def test_a_memory_hog_is_a_memory_error(env: CodingEnvironment, code: str) -> None:
    seen = run(env, code)
    assert seen.exit_code == 1
    assert seen.stderr.endswith("MemoryError\n")
    assert lives(env)


@_LINUX
def test_there_are_only_so_many_processes(env: CodingEnvironment) -> None:
    code = """
import os, time
for number in range(60):
    try:
        pid = os.fork()
    except BlockingIOError:
        break
    if pid == 0:
        time.sleep(20)
        os._exit(0)
print(number)
"""
    assert run(env, code).stdout == "11\n"
    assert lives(env)
    assert run(env, code).stdout == "11\n", "those of the step before are gone"


@_LINUX
def test_threads_count_too(env: CodingEnvironment) -> None:
    code = "import threading, time\nfor _ in range(60): threading.Thread(target=time.sleep, args=(2,)).start()"
    seen = run(env, code)
    assert "RuntimeError: can't start new thread" in seen.stderr
    assert lives(env)


def test_copies_of_the_interpreter_do_not_answer_in_its_place(env: CodingEnvironment) -> None:
    seen = run(env, "import os\npid = os.fork()\nif pid: os.waitpid(pid, 0)\nprint('parent' if pid else 'child')")
    assert seen.stdout == "child\nparent\n"
    seen = run(
        env, "import os, sys\npid = os.fork()\nif not pid: sys.exit(5)\nprint(os.waitstatus_to_exitcode(os.wait()[1]))"
    )
    assert (seen.stdout, seen.exit_code) == ("5\n", 0)
    assert lives(env)


def test_a_copy_that_holds_the_channel_does_not_hide_the_end_of_the_interpreter(env: CodingEnvironment) -> None:
    seen = run(env, "import os, time\nif os.fork(): os._exit(3)\ntime.sleep(60)")
    assert seen.exit_code == 3
    assert lives(env)


def test_what_the_code_does_between_two_steps_is_judged_too(env: CodingEnvironment) -> None:
    code = """
import os, subprocess, threading, time
def work():
    time.sleep(0.1)
    os.kill(os.getpid(), 0)
    subprocess.run(["touch", "done"])
threading.Thread(target=work).start()
print(os.getcwd())
"""
    done = Path(run(env, code).stdout.strip(), "done")
    deadline = time.monotonic() + 20
    while not done.exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_code_may_signal_groups_of_its_own(env: CodingEnvironment) -> None:
    start = "import os, subprocess\np = subprocess.Popen(['sleep', '60'], start_new_session=True)"
    code = f"{start}\nos.killpg(p.pid, 9)\nprint(p.wait())"
    assert run(env, code).stdout == "-9\n"


@pytest.mark.parametrize("number", [0, 1, 2])
def test_closed_standard_streams_are_renewed(env: CodingEnvironment, number: int) -> None:
    run(env, f"import os; os.close({number})")
    assert lives(env)
    run(env, f"import sys; (sys.stdin, sys.stdout, sys.stderr)[{number}].close()")
    assert lives(env)
    assert "ZeroDivisionError" in run(env, "1 / 0").stderr


def test_closing_every_descriptor_ends_the_interpreter_only(env: CodingEnvironment) -> None:
    assert run(env, "import os; os.closerange(0, 1000)").exit_code != 0
    assert lives(env)


@pytest.mark.parametrize("words", [b"\0" * 20, b"\0" * 16, b"garbage" * 4])
def test_words_to_the_supervisor_are_not_taken_for_an_answer(env: CodingEnvironment, words: bytes) -> None:
    forged = f"import os\nfor fd in range(3, 256):\n    try: os.write(fd, {words!r})\n    except OSError: pass"
    seen = run(env, forged)
    assert seen.exit_code == 1
    assert "wrote to the channel by which its interpreter reports" in seen.stderr
    assert lives(env)


def test_a_channel_that_the_code_reads_empty_stops_no_session(env: CodingEnvironment) -> None:
    env.reset(step_timeout_s=0.3)
    theft = """
import os, stat, threading
def steal():
    for fd in range(3, 256):
        try:
            if stat.S_ISSOCK(os.fstat(fd).st_mode): os.read(fd, 1)
        except OSError: pass
threading.Thread(target=steal, daemon=True).start()
"""
    run(env, theft)
    for _ in range(3):  # who gets the first byte, the thread or the interpreter, is a matter of luck
        run(env, "pass")
    assert lives(env)


@_LINUX
@pytest.mark.parametrize(
    "code",
    [
        "os.kill(os.getppid(), 9)",
        "os.kill({server}, 9)",
        "os.kill({thread}, 9)",
        "os.killpg({group}, 9)",
        "os.kill(-1, 9)",
        "os.kill(1, 0)",
        "signal.pidfd_send_signal(os.pidfd_open({server}), 9)",
        "resource.prlimit({server}, resource.RLIMIT_NOFILE, (3, 3))",
        "os.sched_setaffinity({server}, [0])",
        "os.setpriority(os.PRIO_PROCESS, {server}, 19)",
        "fcntl.fcntl(0, fcntl.F_SETOWN, {server})",
        "open('/proc/{server}/mem', 'rb')",
        "open('/proc/{server}/environ').read()",
        "os.readlink('/proc/{server}/fd/0')",
        "open(f'/proc/{{os.getppid()}}/mem', 'rb')",
    ],
)
def test_the_server_is_out_of_reach(env: CodingEnvironment, code: str) -> None:
    threads = sorted(int(name) for name in os.listdir("/proc/self/task"))
    code = code.format(server=os.getpid(), group=os.getpgrp(), thread=threads[-1])
    seen = run(env, f"import fcntl, os, resource, signal\n{code}")
    assert "PermissionError" in seen.stderr
    assert (seen.exit_code, seen.metadata) == (1, {})
    assert lives(env)


@_LINUX
@pytest.mark.parametrize("name", ["ptrace", "process_vm_readv", "process_vm_writev", "kcmp"])
def test_looking_into_other_processes_is_refused(env: CodingEnvironment, name: str) -> None:
    numbers = {
        "x86_64": {"ptrace": 101, "process_vm_readv": 310, "process_vm_writev": 311, "kcmp": 312},
        "aarch64": {"ptrace": 117, "process_vm_readv": 270, "process_vm_writev": 271, "kcmp": 272},
    }[os.uname().machine]
    code = f"""
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
print(libc.syscall({numbers[name]}, 16, {os.getpid()}, 0, 0, 0, 0), ctypes.get_errno())
"""
    assert run(env, code).stdout == "-1 1\n"


@_LINUX
def test_one_session_cannot_reach_the_processes_of_another(env: CodingEnvironment) -> None:
    other = CodingEnvironment(Settings())
    try:
        other.reset()
        pid = run(other, "import os; print(os.getpid()); x = 'mine'").stdout.strip()
        assert "PermissionError" in run(env, f"import os; os.kill({pid}, 9)").stderr
        assert "PermissionError" in run(env, f"open('/proc/{pid}/mem', 'rb')").stderr
        assert run(other, "print(x)").stdout == "mine\n"
    finally:
        other.close()


def test_a_sandbox_that_is_killed_from_outside_is_replaced(env: CodingEnvironment) -> None:
    folder = run(env, "import os; print(os.getcwd())").stdout.strip()
    process = env._interpreter._process
    assert process is not None
    process.kill()
    seen = run(env, "print(1)")
    assert not Path(folder).exists()
    assert seen.exit_code == 1
    assert "The sandbox was ended or did not answer; variables are lost" in seen.stderr
    assert lives(env)


def test_nothing_outlives_a_server_that_is_killed(tmp_path: Path) -> None:
    code = """
import os
from envs.coding_env import CodeAction
from envs.coding_env.server.environment import CodingEnvironment
env = CodingEnvironment()
env.reset()
print(env.step(CodeAction("import os; print(os.getpid(), os.getppid(), os.getcwd())")).stdout, flush=True)
os.kill(os.getpid(), 9)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=Path(__file__).parents[3], stdout=subprocess.PIPE, text=True, timeout=60,
        check=False,
    )  # fmt: skip
    worker, supervisor, folder = done.stdout.split()
    for _ in range(2000):
        if not any(Path(f"/proc/{pid}").exists() for pid in (worker, supervisor)) and not Path(folder).exists():
            return
        time.sleep(0.005)
    raise AssertionError(f"processes {worker}, {supervisor} or the folder {folder} are still there")


_FILTERED = """
import ctypes, os, sys, threading
sys.path.insert(0, {path!r})
from sandbox import filters
ctypes.CDLL(None).prctl(38, 1, 0, 0, 0)
assert filters.install(ask=False) is None
def refused(call):
    try:
        call()
    except OSError as error:
        return error.errno
assert refused(os.fork) == 11
assert refused(lambda: os.kill(os.getppid(), 0)) == 1
os.sched_setaffinity(0, os.sched_getaffinity(0))
thread = threading.Thread(target=lambda: None)
thread.start()
thread.join()
"""


@_LINUX
def test_where_the_kernel_cannot_ask_signals_and_processes_are_refused_and_threads_are_not() -> None:
    path = str(Path(__file__).parents[3] / "envs/coding_env/server")
    subprocess.run([sys.executable, "-c", _FILTERED.format(path=path)], check=True, timeout=60)


def test_messages_arrive_whole_or_not_at_all() -> None:
    import socket

    one, two = socket.socketpair()
    with one, two:
        channel.send(one, {"code": "x" * 100_000})
        assert channel.receive(two) == {"code": "x" * 100_000}
        one.sendall(b"\0\0\0\5{}")
        one.close()
        assert channel.receive(two) is None


def test_descendants_are_found_however_deep() -> None:
    code = "import os, time\nif not os.fork(): os.fork()\nos.write(1, b'%d\\n' % os.getpid())\ntime.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        told = {int(process.stdout.readline()) for _ in range(3)}
        below = processes.below(process.pid)
        assert below == told - {process.pid}
        assert processes.count(process.pid) == 2
        assert all(processes.is_below(pid, process.pid) for pid in below)
        assert not processes.is_below(process.pid, process.pid)
        for pid in (*below, process.pid):
            os.kill(pid, 9)
