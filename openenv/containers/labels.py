"""The labels that say whose a container is."""

from __future__ import annotations

import os
import socket
import time
from functools import cache
from pathlib import Path

from openenv._version import __version__
from openenv.containers.reaper import started
from openenv.containers.spec import LABEL

#: Version of this package; on every container that it makes.
SDK = f"{LABEL}sdk"
#: Random id of the owner process.
SESSION = f"{LABEL}session"
#: The owner's process id, and when it began: a process id alone is used again.
PID, STARTED = f"{LABEL}owner.pid", f"{LABEL}owner.started"
#: The machine's current boot, its name, and the namespace that the process id belongs to.
BOOT, HOST, NAMESPACE = f"{LABEL}owner.boot", f"{LABEL}owner.host", f"{LABEL}owner.pidns"
#: Seconds since the epoch.
CREATED = f"{LABEL}created"
#: Left running on purpose.
KEEP = f"{LABEL}keep"
#: Port that the server listens on inside.
PORT = f"{LABEL}port"


@cache
def boot_id() -> str:
    """Differs between two boots and between two machines; empty where the system does not tell."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def pid_namespace() -> str:
    """Names the namespace of this process's id; empty where there are none."""
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return ""


def owner_labels(session: str, *, port: int, keep: bool) -> dict[str, str]:
    """Labels of a container that this process makes."""
    labels = {
        SDK: __version__,
        SESSION: session,
        PID: str(os.getpid()),
        STARTED: started(os.getpid()),
        BOOT: boot_id(),
        HOST: socket.gethostname(),
        NAMESPACE: pid_namespace(),
        CREATED: f"{time.time():.3f}",
        PORT: str(port),
    }
    return {**labels, KEEP: "true"} if keep else labels
