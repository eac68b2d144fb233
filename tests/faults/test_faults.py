"""Whatever breaks, an episode is counted right or ends with a named error in time, and nothing is left."""

from __future__ import annotations

import pytest
from docker import DockerClient

from tests.faults.run import run


@pytest.mark.faults
@pytest.mark.docker
@pytest.mark.timeout(240)
def test_half_a_minute_of_faults(engine: DockerClient, echo_image: str) -> None:
    told: list[str] = []
    score, left = run(engine, echo_image, seed=20, seconds=30, tell=told.append)
    assert not score.wrong, "\n".join([*told, *score.wrong])
    assert not left, "\n".join([*told, *left])
    assert score.right > 20
