"""Plays Breakout at random, in a container where a Docker engine answers, else in a child process.

Writes the last frame as ``breakout.png`` and the rewards as ``breakout-rewards.svg``.
"""

from __future__ import annotations

import argparse
import random
import sys
from pathlib import Path
from time import perf_counter

from envs.atari_env import AtariAction, AtariEnv, AtariObservation
from openenv.cli import main as openenv
from openenv.core.errors import ContainerError, EngineUnavailable, ImageMissing

IMAGE = "atari-env:latest"
SETTINGS = {"ATARI_GAME": "breakout"}
WIDTH, HEIGHT, MARGIN = 800, 240, 40


def start() -> tuple[AtariEnv, str]:
    """The environment, and where it runs."""
    try:
        try:
            return AtariEnv.from_docker_image(IMAGE, env_vars=SETTINGS), "a container"
        except ImageMissing:
            print(f"The image {IMAGE} is not there yet; building it.\n", flush=True)
            if openenv(["build", "atari_env"]) == 0:
                return AtariEnv.from_docker_image(IMAGE, env_vars=SETTINGS), "a container"
            print(f"\nThe image {IMAGE} cannot be built here.")
    except EngineUnavailable:
        print("No Docker engine can be used.")
    return AtariEnv.from_process("envs.atari_env.server.app:app", env_vars=SETTINGS), "a child process"


def play(env: AtariEnv, frames: int, seed: int) -> tuple[AtariObservation, list[tuple[int, float]], int]:
    """Play ``frames`` frames of the emulator: the last observation, (frame, reward) where there was one, episodes."""
    choice = random.Random(seed)
    result = env.reset(seed=seed)
    rewards: list[tuple[int, float]] = []
    played, episodes = 0, 1
    while played < frames:
        if result.done:
            result = env.reset()
            episodes += 1
        before = result.observation.episode_frame_number
        result = env.step(AtariAction(choice.choice(result.observation.legal_actions)))
        played += result.observation.episode_frame_number - before
        if result.reward:
            rewards.append((played, float(result.reward)))
    return result.observation, rewards, episodes


def plot(rewards: list[tuple[int, float]], frames: int) -> str:
    """The sum of the rewards over the frames, as SVG."""
    total, points = 0.0, [(0, 0.0)]
    for frame, reward in rewards:
        points += [(frame, total), (frame, total + reward)]
        total += reward
    points.append((frames, total))
    wide, high = WIDTH - 2 * MARGIN, HEIGHT - 2 * MARGIN
    line = " ".join(
        f"{MARGIN + wide * frame / frames:.1f},{HEIGHT - MARGIN - high * value / max(total, 1):.1f}"
        for frame, value in points
    )
    floor, right = HEIGHT - MARGIN, WIDTH - MARGIN
    return f"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}">
<style>text {{ font: 13px sans-serif }}</style>
<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>
<path d="M{MARGIN},{MARGIN} V{floor} H{right}" fill="none" stroke="#666"/>
<polyline points="{line}" fill="none" stroke="#1f6feb" stroke-width="2"/>
<text x="{MARGIN}" y="{MARGIN - 12}">Breakout at random: sum of rewards, {total:g} after {frames:,} frames</text>
<text x="{MARGIN - 6}" y="{MARGIN + 5}" text-anchor="end">{max(total, 1):g}</text>
<text x="{MARGIN - 6}" y="{floor}" text-anchor="end">0</text>
<text x="{right}" y="{floor + 18}" text-anchor="end">{frames:,} frames</text>
</svg>
"""


def main(arguments: list[str] | None = None) -> int:
    """Play, write the picture and the plot, say how fast it was."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--frames", type=int, default=10_000, help="frames of the emulator (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=7, help="seed of the game and of the player (default: %(default)s)")
    parser.add_argument("--folder", type=Path, default=Path(), help="where to write (default: here)")
    given = parser.parse_args(arguments)

    env, where = start()
    with env:
        print(f"Playing in {where}: {env.base_url}", flush=True)
        began = perf_counter()
        last, rewards, episodes = play(env, given.frames, given.seed)
        took = perf_counter() - began
    steps = given.frames / 4
    print(f"{given.frames:,} frames in {took:.2f} s: {given.frames / took:,.0f} frames/s, {steps / took:,.0f} steps/s")
    print(f"{episodes} episodes, rewards {sum(reward for _, reward in rewards):g}")
    picture, drawing = given.folder / "breakout.png", given.folder / "breakout-rewards.svg"
    last.render().save(picture)
    drawing.write_text(plot(rewards, given.frames), "utf-8")
    print(f"wrote {picture} and {drawing}")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except ContainerError as error:
        sys.exit(f"The example failed: {error}")
