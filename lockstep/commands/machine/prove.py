"""``lockstep prove``: does hardware compute what is declared, for all inputs?"""

import argparse
import json
from pathlib import Path
from typing import Any

from accel.machine.config import MACHINE
from compiler.files import write_text
from lockstep.options.arguments import add_machine, at_least
from lockstep.options.paths import output_file
from lockstep.printing.lines import say

SECONDS = 60


def add_parser(subparsers) -> argparse.ArgumentParser:
    parser = subparsers.add_parser(
        "prove", help="prove that the hardware computes what is declared, for all inputs",
        description="Prove with Bitwuzla what is claimed of a machine's core (docs/prove.md): that "
                    "the datapaths compute the declared bodies, alignment of their stages "
                    "included, that load and store move each byte once, and that accumulators, "
                    "hazards, tokens, queues and the arbiter are right in every state. Exit "
                    "status: 0 all claims are proved, 1 one is refuted or was not decided, 2 the "
                    "request was wrong. Needs the extra prove.")
    add_machine(parser, f"(default {MACHINE})", MACHINE)
    add = parser.add_argument
    add("--only", default="", metavar="TEXT", help="only the claims that have this text")
    add("--seconds", type=at_least(1), default=SECONDS, metavar="N",
        help=f"what a claim may take (default {SECONDS})")
    add("--waves", type=Path, metavar="DIR",
        help="write a waveform (VCD) there for each claim about a datapath that is refuted")
    add("--json", type=output_file, metavar="R.json", help="write all claims and answers")
    return parser


def run(args: argparse.Namespace) -> int:
    from accel.formal.known import keep_proofs
    from accel.formal.proving import counted, prove
    from accel.machine.loading import load_machine
    from compiler.errors import RequestError
    from lockstep.printing.progress import progress_bar

    machine = load_machine(args.machine)
    done = {"now": "", "count": 0, "of": 0}

    def progress(claim: Any, answer: Any, number: int, total: int) -> None:
        done.update(now=claim.name, count=number, of=total)

    with progress_bar("claims", 0, lambda: int(done["count"]),
                      told=lambda: f" {done['count']} of {done['of']}: {done['now']}"):
        proofs = prove(machine, args.seconds, args.only, progress)
    if not proofs.proofs:
        raise RequestError(f"--only must be in the name of a claim, not {args.only!r}")
    keep_proofs(proofs)
    if args.json:
        write_text(args.json, json.dumps(proofs.as_json(), indent=1) + "\n")
    for one in proofs.proofs:
        answer = one.answer
        word = {True: "proved", False: "REFUTED", None: "not decided"}[answer.proved]
        say(f"{word:12} {answer.seconds:6.1f} s  {one.claim.name}"
            + (f" ({answer.reason})" if answer.reason else ""), indent=24)
        if answer.proved is False:
            say("  for example " + _values(answer.values), indent=4)
    for line in proofs.unclaimed:
        say(f"no claim: {line}")
    if args.waves:
        _write_waves(proofs, args.waves)
    say(f"{machine.config.name} ({machine.hash[:12]}): {counted(proofs.proofs)} of "
        f"{len(proofs.proofs)} claims, {proofs.seconds:.0f} s")
    return 0 if all(one.answer.proved for one in proofs.proofs) else 1


def _values(values: dict[str, int]) -> str:
    """Inputs and their values, without those that are 0, and without registers."""
    shown = [f"{name} = {value}" for name, value in sorted(values.items())
             if value and not name.startswith(("register", "nothing"))]
    return ", ".join(shown) or "all inputs 0"


def _write_waves(proofs: Any, folder: Path) -> None:
    from accel.formal.waves import write_waves

    folder.mkdir(parents=True, exist_ok=True)
    for path in write_waves(proofs, folder):
        say(f"{path}: {path.stat().st_size:,} bytes")
