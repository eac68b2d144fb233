"""What ``make demo`` runs: one episode of the echo environment, and how long each part of it took."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter

from envs.echo_env import EchoAction, EchoEnv
from openenv.cli import main as openenv
from openenv.core.errors import ContainerError, EngineUnavailable, ImageMissing

IMAGE = "echo-env:latest"
MESSAGES = ("Hello!", "Is anybody there?", "Goodbye.")


@contextmanager
def timed(what: str) -> Iterator[list[str]]:
    """Print ``what``, what the block adds to the list, and the milliseconds that the block took."""
    told: list[str] = []
    start = perf_counter()
    yield told
    print(f"{what:<28} {(perf_counter() - start) * 1000:8.1f} ms   {' '.join(told)}", flush=True)


def start() -> tuple[EchoEnv, str]:
    """Start the environment in a container, or in a child process where no container can be had."""
    try:
        try:
            return EchoEnv.from_docker_image(IMAGE), "in a container"
        except ImageMissing:
            print(f"The image {IMAGE} is not there yet; building it.\n", flush=True)
            if openenv(["build", "echo_env"]) == 0:
                return EchoEnv.from_docker_image(IMAGE), "in a container"
            print(f"\nThe image {IMAGE} cannot be built here, so the server runs as a child process.\n")
    except EngineUnavailable as error:
        print(f"No Docker engine can be used, so the server runs as a child process.\n  ({error})\n")
    return EchoEnv.from_process(), "as a child process"


def play(env: EchoEnv) -> None:
    """Reset, a few steps, the state."""
    with timed("reset(seed=7)") as told:
        told.append(repr(env.reset(seed=7).observation.echoed_message))
    for message in MESSAGES:
        with timed(f"step({message!r})") as told:
            result = env.step(EchoAction(message=message))
            told += [repr(result.observation.echoed_message), f"reward {result.reward:.1f}"]
    with timed("state()") as told:
        state = env.state()
        told.append(f"step_count {state.step_count}, episode {state.episode_id}")


def main() -> int:
    """Play one episode."""
    with timed("started") as told:
        env, where = start()
        told.append(f"{where}, {env.base_url}")
    try:
        play(env)
    finally:
        with timed("close()"):
            env.close()
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except ContainerError as error:
        sys.exit(f"The demo failed: {error}")
