"""A pool on containers of its own: it starts them, survives the loss of one, and leaves none."""

from __future__ import annotations

from collections.abc import Callable

from docker import DockerClient

from envs.echo_env import EchoAction, EchoEnv
from openenv.pool import EnvPool

Left = Callable[..., list[str]]


def test_lanes_on_two_containers_one_of_which_is_killed(echo_image: str, engine: DockerClient, left: Left) -> None:
    with EnvPool(EchoEnv, echo_image, 8, containers=2) as pool:
        names = left()
        assert len(names) == 2
        assert not pool.reset().errors
        for number in range(1, 6):
            result = pool.step([EchoAction(message=f"{lane}") for lane in range(8)])
            assert [told.observation.metadata["step"] for told in result if told] == [number] * 8
        engine.api.kill(names[0].lstrip("/"))
        result = pool.step([EchoAction(message="on")] * 8)
        assert len(result.errors) == 4
        assert all("137" in str(error) or "SIGKILL" in str(error) for error in result.errors.values())
        assert [told.observation.metadata["step"] for told in result if told] == [6] * 4
        assert not pool.reset().errors
        result = pool.step([EchoAction(message="again")] * 8)
        assert [told.observation.metadata["step"] for told in result if told] == [1] * 8
        assert len(left()) == 2
    assert left() == []
