"""``python -m tests.soak_pool --minutes 10``: counted episodes of 64 lanes on 4 containers, one killed every minute."""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections import Counter

import docker

from envs.echo_env import EchoAction, EchoEnv
from openenv.containers.labels import SESSION
from openenv.containers.owner import OWNER
from openenv.pool import EnvPool


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.soak_pool", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--every", type=float, default=60, help="seconds between two kills")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--image", default="echo-env:latest")
    args = parser.parse_args()
    engine, chance = docker.from_env(timeout=120), random.Random(args.seed)
    mine = {"label": f"{SESSION}={OWNER.session}"}
    named: Counter[str] = Counter()
    right = steps = kills = 0
    with EnvPool(EchoEnv, args.image, 64, containers=4, client_options={"request_timeout_s": 10.0}) as pool:
        end = time.monotonic() + args.minutes * 60
        kill_at = time.monotonic() + args.every / 2
        while time.monotonic() < end:
            begun = pool.reset()
            named.update(type(error).__name__ for error in begun.errors.values())
            count = dict.fromkeys(begun.ready, 0)
            for _ in range(chance.randrange(20, 200)):
                if time.monotonic() > kill_at:
                    kill_at += args.every
                    kills += 1
                    victim = chance.choice(engine.api.containers(filters=mine))
                    engine.api.kill(victim["Id"])
                    print(f"{time.strftime('%H:%M:%S')} killed {victim['Names'][0]}", flush=True)
                result = pool.step({lane: EchoAction(message=f"{lane}-{count[lane]}") for lane in count})
                for lane, error in result.errors.items():
                    named[type(error).__name__] += 1
                    del count[lane]
                for lane in count:
                    told = result[lane]
                    count[lane] += 1
                    assert told is not None, f"lane {lane} has neither a result nor an error"
                    assert told.observation.metadata["step"] == count[lane], (lane, count[lane], told)
                    assert told.observation.echoed_message == f"{lane}-{count[lane] - 1}", (lane, told)
                    steps += 1
            states = pool.state()
            for lane, expected in count.items():
                state = states[lane]
                if state is not None:
                    assert state.step_count == expected, (lane, expected, state)
                    right += 1
    left = engine.api.containers(all=True, filters=mine)
    print(
        f"seed {args.seed}: {kills} containers killed, {right} episodes right, {steps} steps, lanes lost by name: "
        f"{dict(named)}, {len(left)} containers left"
    )
    return 1 if left else 0


if __name__ == "__main__":
    sys.exit(main())
