"""``python -m tests.faults --minutes 30 --seed 7 [--image echo-env:latest]``: the long form of the fault suite."""

from __future__ import annotations

import argparse
import sys
import time

import docker

from tests.faults.run import run


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--image", default="echo-env:latest")
    parser.add_argument("--quiet", action="store_true", help="only the last line")
    args = parser.parse_args()
    engine = docker.from_env(timeout=120)

    def tell(line: str) -> None:
        if not args.quiet:
            print(f"{time.strftime('%H:%M:%S')} {line}", flush=True)

    score, left = run(engine, args.image, seed=args.seed, seconds=args.minutes * 60, tell=tell)
    for words in (*score.wrong, *left):
        print(words, file=sys.stderr)
    print(
        f"seed {args.seed}: {score.right} episodes right, {sum(score.named.values())} ended by a named error, "
        f"{len(score.wrong)} wrong, {len(left)} kinds of things left; named: {dict(score.named)}"
    )
    return 1 if score.wrong or left else 0


sys.exit(main())
