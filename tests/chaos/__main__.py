"""`python -m chaos [SEED...]`: run seeds one after the other and count what they came to."""

from __future__ import annotations

import argparse
import signal
import sys
from pathlib import Path

from chaos.lab import why_not_under
from chaos.model import rules_found
from chaos.network import NoNetwork, why_not
from chaos.plants import PLANTS, search
from chaos.process import DidNotStart
from chaos.run import Verdict, run
from chaos.schedule import PACES, World, schedule_of

SEEDS = 20
SHOWN_MAX = 8  # violations of one seed


def main(words: list[str]) -> int:
    options = _options(words)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    seeds = (
        [options.seed]
        if options.seed is not None
        else range(options.first, options.first + options.seeds)
    )
    if reason := why_not() or why_not_under(options.provider, is_rdma=bool(options.rdma)):
        print(f"skipped: {reason}")
        print(f"0 passed, 0 failed, {len(options.planted or seeds)} skipped")
        return 0
    if options.planted:
        return _find_plants(options)
    failed = sum(not _try(seed, options) for seed in seeds)
    return _sum_up(len(seeds), failed, 0)


def _sum_up(count: int, failed: int, skipped: int) -> int:
    print(f"{count - failed - skipped} passed, {failed} failed, {skipped} skipped")
    return 1 if failed else 0


def _find_plants(options: argparse.Namespace) -> int:
    """Look for every planted fault, with real nodes and in the model."""
    by_model = _ask_model(options)
    missed = skipped = 0
    for plant in (plant for plant in PLANTS if plant.name in options.planted):
        found = search(plant, options.core)
        seeds = ", ".join(str(verdict.schedule.seed) for verdict in found.verdicts)
        if found.control and found.control.violations:
            missed += 1
            print(f"{plant.name} FAILED: seed {seeds} fails without it too:", flush=True)
            print(f"  {found.control.violations[0]}", flush=True)
        elif found.shown:
            print(f"{plant.name} found with seed {seeds}, which passes without it:", flush=True)
            print(f"  {found.shown}", flush=True)
        elif plant.rule in by_model:
            skipped += 1
            print(f"{plant.name} found by the model alone: test_protocol", flush=True)
            print(f"  skipped: real nodes did not show it with seeds {seeds}", flush=True)
        else:
            missed += 1
            print(f"{plant.name} NOT FOUND with seeds {seeds}", flush=True)
    return _sum_up(len(options.planted), missed, skipped)


def _ask_model(options: argparse.Namespace) -> set[str]:
    if options.model is None:
        return set()
    found = rules_found(options.model)
    print(f"the model shows what goes wrong without: {', '.join(sorted(found))}", flush=True)
    return found


def _try(seed: int, options: argparse.Namespace) -> bool:
    world = World(
        replicas=options.replicas,
        provider=options.provider,
        has_disk=options.nvme,
        is_kept=options.kept,
        rdma=options.rdma,
    )
    schedule = schedule_of(seed, world)
    folder = options.keep and options.keep / f"seed{seed}"
    if folder:
        folder.mkdir(parents=True, exist_ok=True)
    try:
        verdict = run(schedule, folder or None)
    except (DidNotStart, NoNetwork) as error:
        print(f"seed {seed}: {error}", flush=True)
        return False
    _show(seed, verdict)
    return not verdict.violations


def _show(seed: int, verdict: Verdict) -> None:
    word = "FAILED" if verdict.violations else "passed"
    print(f"seed {seed} {word}: {verdict.summary()}", flush=True)
    if not verdict.violations:
        return
    for fault in verdict.schedule.faults:
        print(f"  fault: {fault}")
    for violation in verdict.violations[:SHOWN_MAX]:
        print(f"  {violation}")
    if len(verdict.violations) > SHOWN_MAX:
        print(f"  and {len(verdict.violations) - SHOWN_MAX} more")
    print(f"  replay with: {verdict.schedule.world.replay(seed)}", flush=True)


def _options(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m chaos", description=__doc__)
    parser.add_argument("--seeds", type=int, default=SEEDS, help="how many, from --first on")
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seed", type=int, help="just this one")
    parser.add_argument("--replicas", type=int, default=1)
    parser.add_argument("--provider", default="static", choices=tuple(PACES))
    parser.add_argument("--nvme", action="store_true", help="nodes have a disk below little memory")
    parser.add_argument("--kept", action="store_true", help="nodes keep their memory when killed")
    parser.add_argument(
        "--rdma",
        nargs="?",
        const="tcp",
        default="",
        metavar="TRANSPORTS",
        help="payload goes by UCX, over its TCP or over these: posix,sysv",
    )
    names = [plant.name for plant in PLANTS]
    parser.add_argument("--planted", nargs="*", choices=names, help="find these faults in --core")
    parser.add_argument("--core", type=Path, help="the core that they are in")
    parser.add_argument("--model", type=Path, help="test_protocol, to be run before them")
    parser.add_argument("--keep", type=Path, help="a folder for plans, logs and histories")
    options = parser.parse_args(words)
    if options.planted == []:
        options.planted = names
    if options.planted:
        options.provider = "etcd"  # some need it
    return options


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
