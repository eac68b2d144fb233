"""Serves one environment with the peer's server and uvicorn's defaults; says ``OPENENV_READY URL``."""

from __future__ import annotations

import socket
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import kit
import uvicorn
from fastapi import FastAPI

from openenv.core.env_server.http_server import HTTPEnvServer

KIND, FOLDERS = sys.argv[1], sys.argv[2:]
#: Idle sockets must outlive the turns of the other cases.
_PATIENCE_S = 3600.0

kit.share(FOLDERS)
environment, action, observation, _ = kit.KINDS[KIND]
server = HTTPEnvServer(environment, action, observation, max_concurrent_envs=50_000)
app = FastAPI()
server.register_routes(app)
listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
listener.bind(("127.0.0.1", 0))
listener.listen()
sys.stdout.write(f"OPENENV_READY http://127.0.0.1:{listener.getsockname()[1]}\n")
sys.stdout.flush()
config = uvicorn.Config(app, log_level="warning", ws_ping_interval=_PATIENCE_S, ws_ping_timeout=_PATIENCE_S)
uvicorn.Server(config).run(sockets=[listener])
