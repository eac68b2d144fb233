"""Where the Docker engine is looked for, and under which host its ports are reached."""

from __future__ import annotations

import hashlib
import json
import pickle
from pathlib import Path

import pytest

from openenv.containers import LocalDockerProvider
from openenv.containers.engine import Address, Engine, addresses
from openenv.core.errors import EngineUnavailable


@pytest.fixture(autouse=True)
def nothing_set(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A home without Docker's configuration."""
    for name in ("DOCKER_HOST", "DOCKER_CONTEXT", "DOCKER_TLS_VERIFY", "DOCKER_CERT_PATH", "DOCKER_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "run"))
    return tmp_path


def write_context(home: Path, name: str, host: str) -> None:
    folder = home / ".docker" / "contexts" / "meta" / hashlib.sha256(name.encode()).hexdigest()
    folder.mkdir(parents=True)
    (home / ".docker" / "config.json").write_text("{}")
    endpoints = {"docker": {"Host": host, "SkipTLSVerify": False}}
    (folder / "meta.json").write_text(json.dumps({"Name": name, "Metadata": {}, "Endpoints": endpoints}))


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("unix:///var/run/docker.sock", "127.0.0.1"),
        ("npipe:////./pipe/docker_engine", "127.0.0.1"),
        ("tcp://127.0.0.1:2375", "127.0.0.1"),
        ("tcp://localhost:2375", "127.0.0.1"),
        ("tcp://[::1]:2375", "127.0.0.1"),
        ("tcp://10.1.2.3:2376", "10.1.2.3"),
        ("https://build.example:2376", "build.example"),
        ("ssh://me@gpu-box.example:2222", "gpu-box.example"),
        ("ssh://gpu-box", "gpu-box"),
        ("tcp://[fd00::5]:2375", "fd00::5"),
    ],
)
def test_ports_are_reached_at_the_engines_host(url: str, host: str) -> None:
    assert Address(url).host == host


def test_docker_host_is_the_only_place_that_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "tcp://10.1.2.3:2375")
    assert [(found.url, found.tls) for found in addresses()] == [("tcp://10.1.2.3:2375", False)]


def test_tls_of_docker_host_is_heeded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "tcp://10.1.2.3:2376")
    monkeypatch.setenv("DOCKER_TLS_VERIFY", "1")
    monkeypatch.setenv("DOCKER_CERT_PATH", "/certs")
    (found,) = addresses()
    assert (found.tls, found.verify, found.ca, found.cert) == (True, True, "/certs/ca.pem", "/certs/cert.pem")


def test_the_active_context_of_the_docker_command_is_used(nothing_set: Path) -> None:
    write_context(nothing_set, "colima", "unix:///home/me/.colima/docker.sock")
    (nothing_set / ".docker" / "config.json").write_text('{"currentContext": "colima"}')
    (found,) = addresses()
    assert found.url == "unix:///home/me/.colima/docker.sock"
    assert "'colima'" in found.source


def test_docker_context_names_another_one(nothing_set: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_context(nothing_set, "remote", "ssh://me@box")
    monkeypatch.setenv("DOCKER_CONTEXT", "remote")
    assert [found.url for found in addresses()] == ["ssh://me@box"]


def test_a_context_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_CONTEXT", "nonsense")
    with pytest.raises(EngineUnavailable, match="Docker context 'nonsense' does not exist"):
        list(addresses())


def test_sockets_at_other_usual_places_are_found(nothing_set: Path) -> None:
    podman = nothing_set / "run" / "podman" / "podman.sock"
    podman.parent.mkdir(parents=True)
    podman.touch()
    assert f"unix://{podman}" in [found.url for found in addresses()]


def test_without_an_engine_constructing_is_a_runtime_error_that_names_docker_and_where_it_looked(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    socket = f"unix://{tmp_path}/no.sock"
    monkeypatch.setenv("DOCKER_HOST", socket)
    with pytest.raises(RuntimeError, match="no Docker engine answers") as caught:
        LocalDockerProvider()
    assert isinstance(caught.value, EngineUnavailable)
    assert f"{socket} (DOCKER_HOST): there is no such socket" in str(caught.value)
    assert "from_process()" in caught.value.remedy


def test_an_engine_that_refuses_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "tcp://127.0.0.1:9")
    with pytest.raises(EngineUnavailable, match="nobody listens there"):
        Engine.find()


def test_an_engine_travels_by_its_address() -> None:
    engine = Engine(Address("tcp://10.1.2.3:2375", "DOCKER_HOST"), client=None)  # type: ignore[arg-type]
    assert pickle.loads(pickle.dumps(engine)).address == engine.address
