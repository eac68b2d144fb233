"""A filter of system calls: a process of the code reaches only processes of the code, and there are only so many.

Signals and the like to other processes, and new processes and threads, are judged by the supervisor
(``SECCOMP_RET_USER_NOTIF``), which knows who is below it. Where the kernel cannot ask it, signals to other processes
and new processes are refused. Looking into other processes is always refused.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import platform
import struct
from collections.abc import Iterable
from functools import cache

from . import processes

_ALLOW, _ERRNO, _NOTIFY = 0x7FFF0000, 0x00050000, 0x7FC00000
_REFUSE = _ERRNO | errno.EPERM
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_CLONE_THREAD = 0x10000
_SET_MODE_FILTER, _NEW_LISTENER = 1, 8
_RECEIVE, _SEND = 0xC0502100, 0xC0182101
_CONTINUE = 1
_NUMBER, _ARCH, _FIRST_ARGUMENT, _SECOND_ARGUMENT = 0, 4, 16, 24

_F_SETOWN, _F_SETSIG, _F_SETOWN_EX, _FIOSETOWN, _SIOCSPGRP = 8, 10, 15, 0x8901, 0x8902

#: By machine: the mark of its system calls, and their numbers.
_ARCHES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_NUMBERS = {
    "x86_64": {
        "kill": 62, "tkill": 200, "tgkill": 234, "rt_sigqueueinfo": 129, "rt_tgsigqueueinfo": 297, "prlimit64": 302,
        "sched_setaffinity": 203, "sched_setscheduler": 144, "sched_setparam": 142, "sched_setattr": 314,
        "setpriority": 141, "ptrace": 101, "process_vm_readv": 310, "process_vm_writev": 311, "pidfd_getfd": 438,
        "pidfd_send_signal": 424, "process_madvise": 440, "process_mrelease": 448, "perf_event_open": 298, "kcmp": 312,
        "ioprio_set": 251, "fcntl": 72, "ioctl": 16, "seccomp": 317, "clone3": 435, "clone": 56, "fork": 57,
        "vfork": 58,
    },
    "aarch64": {
        "kill": 129, "tkill": 130, "tgkill": 131, "rt_sigqueueinfo": 138, "rt_tgsigqueueinfo": 240, "prlimit64": 261,
        "sched_setaffinity": 122, "sched_setscheduler": 119, "sched_setparam": 118, "sched_setattr": 274,
        "setpriority": 140, "ptrace": 117, "process_vm_readv": 270, "process_vm_writev": 271, "pidfd_getfd": 438,
        "pidfd_send_signal": 424, "process_madvise": 440, "process_mrelease": 448, "perf_event_open": 241, "kcmp": 272,
        "ioprio_set": 30, "fcntl": 25, "ioctl": 29, "seccomp": 277, "clone3": 435, "clone": 220,
    },
}  # fmt: skip

#: Calls whose first argument is the process that is meant; 0 is the caller or its group, which is always fine.
_JUDGED = (
    "kill", "tkill", "tgkill", "rt_sigqueueinfo", "rt_tgsigqueueinfo", "prlimit64",
    "sched_setaffinity", "sched_setscheduler", "sched_setparam", "sched_setattr",
)  # fmt: skip
_REFUSED = (
    "ptrace", "process_vm_readv", "process_vm_writev", "pidfd_getfd", "pidfd_send_signal", "process_madvise",
    "process_mrelease", "perf_event_open", "kcmp", "setpriority", "ioprio_set",
)  # fmt: skip
_BIRTHS = ("clone", "fork", "vfork")
#: Ways to have a signal sent to another process by way of a descriptor: the call, and its second arguments.
_DESCRIPTORS = {"fcntl": (_F_SETOWN, _F_SETSIG, _F_SETOWN_EX), "ioctl": (_FIOSETOWN, _SIOCSPGRP)}


def install(ask: bool = True) -> int | None:
    """Filter this process and all below it from now on. It must have given up gaining privileges.

    Args:
        ask: Let the supervisor judge, where the kernel can do that.

    Returns:
        The descriptor for :func:`judge`; ``None`` where nobody is asked.
    """
    machine = platform.machine()
    if machine not in _NUMBERS:
        return None
    libc = ctypes.CDLL(None, use_errno=True)
    for verdict, flags in ((_NOTIFY, _NEW_LISTENER), (_REFUSE, 0))[not ask :]:
        program = _program(machine, verdict)
        code = ctypes.create_string_buffer(program, len(program))
        # struct sock_fprog: a count, padding, a pointer
        what = struct.pack("HP", len(program) // 8, ctypes.addressof(code))
        given = libc.syscall(_NUMBERS[machine]["seccomp"], _SET_MODE_FILTER, flags, what)
        if given >= 0:
            return int(given) if flags else None
    return None


def judge(listener: int, top: int, most: int) -> None:
    """Answer one call that waits at ``listener``.

    Args:
        listener: What :func:`install` gave.
        top: Calls may reach what is below this process,
        most: which may be so many processes and threads.
    """
    asked = bytearray(80)
    try:
        fcntl.ioctl(listener, _RECEIVE, asked)
        call, _, _, number, _, _, first = struct.unpack_from("=QIIiIQQ", asked)
        if number in _birth_numbers():
            refusal = 0 if processes.count(top) < most else errno.EAGAIN
        else:
            target = ctypes.c_int32(first & 0xFFFFFFFF).value
            # A group is led by a process of the code or has none of the server's: they are in other sessions.
            refusal = 0 if processes.is_below(abs(target), top) else errno.EPERM
        answer = struct.pack("=QqiI", call, 0, -refusal, 0 if refusal else _CONTINUE)
        fcntl.ioctl(listener, _SEND, bytearray(answer))
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.EINTR):  # the caller is gone
            raise


@cache
def _birth_numbers() -> frozenset[int]:
    numbers = _NUMBERS[platform.machine()]
    return frozenset(numbers[name] for name in _BIRTHS if name in numbers)


def _program(machine: str, verdict: int) -> bytes:
    numbers = _NUMBERS[machine]
    code = [_do(_LOAD, _ARCH), *_unless_equal([_ARCHES[machine]], _REFUSE), _do(_LOAD, _NUMBER)]
    if machine == "x86_64":  # the x32 names of the same calls
        code += [_jump(_AT_LEAST, 0x40000000, 0, 1), _do(_RETURN, _REFUSE)]
    for name in _JUDGED:
        inner = [_do(_LOAD, _FIRST_ARGUMENT), *_if_equal([0], _ALLOW), _do(_RETURN, verdict)]
        code += [_jump(_EQUAL, numbers[name], 0, len(inner)), *inner]
    # Its arguments are in memory, which may change after they are judged; C libraries then use clone.
    code += _if_equal([numbers["clone3"]], _ERRNO | errno.ENOSYS)
    if verdict == _NOTIFY:
        code += _if_equal(sorted(_birth_numbers()), verdict)
    else:
        code += _if_equal([numbers[name] for name in ("fork", "vfork") if name in numbers], _ERRNO | errno.EAGAIN)
        thread = [
            _do(_LOAD, _FIRST_ARGUMENT),
            _jump(_ANY_BIT, _CLONE_THREAD, 1, 0),
            _do(_RETURN, _ERRNO | errno.EAGAIN),
        ]
        thread.append(_do(_RETURN, _ALLOW))
        code += [_jump(_EQUAL, numbers["clone"], 0, len(thread)), *thread]
    for name in _REFUSED:
        code += _if_equal([numbers[name]], _REFUSE)
    for name, arguments in _DESCRIPTORS.items():
        inner = [_do(_LOAD, _SECOND_ARGUMENT), *_if_equal(arguments, _REFUSE), _do(_RETURN, _ALLOW)]
        code += [_jump(_EQUAL, numbers[name], 0, len(inner)), *inner]
    return b"".join([*code, _do(_RETURN, _ALLOW)])


def _do(what: int, value: int) -> bytes:
    return struct.pack("HBBI", what, 0, 0, value)


def _jump(what: int, value: int, if_true: int, if_false: int) -> bytes:
    return struct.pack("HBBI", what, if_true, if_false, value)


def _if_equal(values: Iterable[int], verdict: int) -> list[bytes]:
    return [part for value in values for part in (_jump(_EQUAL, value, 0, 1), _do(_RETURN, verdict))]


def _unless_equal(values: Iterable[int], verdict: int) -> list[bytes]:
    return [part for value in values for part in (_jump(_EQUAL, value, 1, 0), _do(_RETURN, verdict))]
