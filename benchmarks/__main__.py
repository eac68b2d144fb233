"""``python -m benchmarks [--quick] [--json] [NAME ...]``; exit code 1 when a promise does not hold."""

from __future__ import annotations

import argparse
import json
import sys
from importlib import import_module
from typing import Any

from benchmarks import BENCHES
from benchmarks.frame import Must, Unavailable, measure
from benchmarks.plot import svg
from benchmarks.report import as_json, as_markdown, machine, skipped_markdown


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Measure what is promised about speed.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"which ones (default: all): {', '.join(BENCHES)}")
    parser.add_argument("--quick", action="store_true", help="fewer samples: does it run, not how fast is it")
    parser.add_argument(
        "--json", action="store_true", help='print one object {PROMISE: {"ratio", "must", "holds"}} instead of Markdown'
    )
    parser.add_argument("--out", metavar="FILE", help="write machine, cases and promises there, as JSON")
    parser.add_argument("--plot", metavar="FILE", help="draw the promises there, as SVG")
    args = parser.parse_args()
    for name in args.names:
        if name not in BENCHES:
            parser.error(f"there is no benchmark {name!r}; there are: {', '.join(BENCHES)}")

    about = machine()
    if not args.json:
        print(" · ".join(f"{key} {value}" for key, value in about.items()) + "\n", flush=True)
    promises: dict[str, dict[str, Any]] = {}
    details: list[dict[str, Any]] = []
    for name in args.names or BENCHES:
        module = import_module(f"benchmarks.{name}")
        try:
            with module.bench(quick=args.quick) as bench:
                result = measure(bench)
        except Unavailable as error:
            promises |= {must.id: must.skipped(str(error)) for must in module.MUSTS}
            details.append({"name": name, "skipped": str(error)})
            text = skipped_markdown(name, module.MUSTS, str(error))
        else:
            promises |= {must.id: must.verdict(result) for must in bench.musts}
            details.append(as_json(name, result))
            text = as_markdown(name, result)
        if not args.json:
            print(text, flush=True)
    if args.json:
        print(json.dumps(promises, indent=2))
    if args.out:
        with open(args.out, "w", encoding="utf-8") as file:
            json.dump({"machine": about, "promises": promises, "benchmarks": details}, file, indent=2)
    if args.plot:
        bounds = {must.id: must.at_least is not None for name in BENCHES for must in _musts(name)}
        with open(args.plot, "w", encoding="utf-8") as file:
            file.write(svg(promises, bounds))
    return 1 if any(verdict["holds"] is False for verdict in promises.values()) else 0


def _musts(name: str) -> list[Must]:
    musts: list[Must] = import_module(f"benchmarks.{name}").MUSTS
    return musts


sys.exit(main())
