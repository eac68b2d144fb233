"""Cart pole, in one file: what travels, the environment, the client and the server.

``openenv serve examples.cart_pole:app`` serves it; ``CartPoleEnv.from_process("examples.cart_pole:app")`` runs it.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from typing import Annotated, ClassVar

from msgspec import Meta

from openenv.core import Action, HTTPEnvClient, Observation, State, TypedHooks
from openenv.server import Environment, create_app

GRAVITY, CART_KG, POLE_KG, HALF_POLE_M, FORCE_N, SECONDS = 9.8, 1.0, 0.1, 0.5, 10.0, 0.02
EDGE_M, FALLEN_RAD, LONGEST = 2.4, math.radians(12), 500


@dataclass(kw_only=True)
class Push(Action):
    """Push the cart.

    Attributes:
        right: 1 to the right, 0 to the left.
    """

    right: Annotated[int, Meta(ge=0, le=1)]


@dataclass(kw_only=True)
class Seen(Observation):
    """Place (m) and speed (m/s) of the cart, angle (rad) and speed of the pole (rad/s)."""

    motion: Annotated[list[float], Meta(min_length=4, max_length=4)]
    truncated: bool = False


class CartPole(Environment[Push, Seen, State]):
    """Keep the pole upright: each step pays 1, until it falls, the cart leaves the track, or 500 steps are over."""

    blocking: ClassVar[bool] = False

    def __init__(self) -> None:
        self.state = State()
        self._chance = random.Random()
        self._x = self._speed = self._angle = self._turn = 0.0

    def reset(self, seed: int | None = None) -> Seen:
        """Begin with the pole almost upright; the same ``seed`` begins the same way."""
        if seed is not None:
            self._chance.seed(seed)
        self.state = State()
        self._x, self._speed, self._angle, self._turn = (self._chance.uniform(-0.05, 0.05) for _ in range(4))
        return Seen(motion=[self._x, self._speed, self._angle, self._turn])

    def step(self, action: Push) -> Seen:
        """Push once."""
        mass = CART_KG + POLE_KG
        force = FORCE_N if action.right else -FORCE_N
        sine, cosine = math.sin(self._angle), math.cos(self._angle)
        pull = (force + POLE_KG * HALF_POLE_M * self._turn**2 * sine) / mass
        turning = (GRAVITY * sine - cosine * pull) / (HALF_POLE_M * (4 / 3 - POLE_KG * cosine**2 / mass))
        moving = pull - POLE_KG * HALF_POLE_M * turning * cosine / mass
        self._x += SECONDS * self._speed
        self._speed += SECONDS * moving
        self._angle += SECONDS * self._turn
        self._turn += SECONDS * turning
        self.state.step_count += 1
        over = abs(self._x) > EDGE_M or abs(self._angle) > FALLEN_RAD
        late = not over and self.state.step_count >= LONGEST
        return Seen(
            motion=[self._x, self._speed, self._angle, self._turn], reward=1.0, done=over or late, truncated=late
        )


class CartPoleEnv(TypedHooks[Push, Seen, State], HTTPEnvClient[Push, Seen, State]): ...


app = create_app(CartPole, Push, Seen, name="cart_pole")
