"""`openenv doctor` on a real engine: a container is tried, what is wrong is told, and nothing is left."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from docker import DockerClient

from openenv.cli import main


def findings(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, dict[str, str]]:
    main(["doctor", "--json", *words])
    return {one["check"]: one for one in json.loads(capsys.readouterr().out)}


def test_a_sound_engine(echo_image: str, capsys: pytest.CaptureFixture[str], left: Callable[..., list[str]]) -> None:
    found = findings(capsys, "--image", echo_image)
    assert {one["status"] for one in found.values()} <= {"ok", "warning"}
    for check in ("engine", "engine's version", "engine's clock", "disk", "limits", "architecture", "ports"):
        assert found[check]["status"] == "ok", found[check]
    assert f"a container of {echo_image} answered at http://127.0.0.1:" in found["ports"]["found"]
    assert left() == []


def test_an_image_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    found = findings(capsys, "--image", "no-such-env:latest")
    assert found["image"]["status"] == "problem"
    assert "no-such-env:latest" in found["image"]["found"]
    assert found["image"]["remedy"]


def test_an_image_whose_server_ends_at_once(
    engine: DockerClient, image: str, capsys: pytest.CaptureFixture[str], left: Callable[..., list[str]]
) -> None:
    base = engine.containers.create(image, ["python", "-c", "raise SystemExit('no model file')"])
    try:
        broken = base.commit("doctor-broken", "test", conf={"Cmd": base.attrs["Config"]["Cmd"]})
    finally:
        base.remove()
    try:
        found = findings(capsys, "--image", "doctor-broken:test")
    finally:
        engine.images.remove(broken.id, force=True)
    assert found["ports"]["status"] == "problem"
    assert "no model file" in found["ports"]["found"]
    assert left() == []
