"""``lockstep pool scheduler|worker|certificates``: devices here, for trials and networks of others.
"""

import argparse
from pathlib import Path

from lockstep.options.arguments import add_kinds, add_tls, at_least, certificates_of
from lockstep.printing.lines import say

PORT = 8786
LIMIT_SECONDS = 60


def add_parser(subparsers) -> argparse.ArgumentParser:
    parser = subparsers.add_parser(
        "pool", help="lend this computer's devices to searches and runs elsewhere",
        description="A scheduler hands out trials of plans and runs of networks; workers, here and "
                    "on other computers, each have a device. Whoever can connect may run programs "
                    "on the workers: without --tls all of them hear this computer alone. Exit "
                    "status: 0 done, 2 the request was wrong.")
    add_kinds(parser, ((_add_scheduler, _scheduler), (_add_worker, _worker),
                       (_add_certificates, _certificates)))
    return parser


def run(args: argparse.Namespace) -> int:
    return args.perform(args)


def _add_scheduler(kinds) -> argparse.ArgumentParser:
    parser = kinds.add_parser("scheduler", help="hand out work until it is ended",
                              description="Hand out work to the workers that connect. Prints its "
                                          "address, for them and for searches.")
    parser.add_argument("--port", type=at_least(0), default=PORT, metavar="N",
                        help=f"default {PORT}; 0 for any that is free")
    add_tls(parser)
    return parser


def _add_worker(kinds) -> argparse.ArgumentParser:
    parser = kinds.add_parser(
        "worker", help="lend a device until it is ended",
        description="Lend a device of this computer to the pool at an address. Trials and networks "
                    "run in a process of their own, and no longer than --limit.")
    add = parser.add_argument
    add("address", metavar="ADDRESS", help="tcp://HOST:PORT or tls://HOST:PORT of the scheduler")
    add("--device", required=True, metavar="D",
        help="cpu, cuda, opencl, accel:PRESET (its cycle simulator) or board:PORT (board:emulated "
             "for one in Verilator)")
    add_tls(parser)
    add("--limit", type=at_least(1), default=LIMIT_SECONDS, metavar="SECONDS",
        help=f"of a trial or a run (default {LIMIT_SECONDS})")
    add("--core", type=at_least(0), metavar="N", help="run on this core alone")
    add("--import", action="append", default=[], metavar="MODULE", dest="imports",
        help="import a module first that registers targets of one's own (repeatable)")
    return parser


def _add_certificates(kinds) -> argparse.ArgumentParser:
    parser = kinds.add_parser(
        "certificates", help="make certificates for a pool",
        description="Make an authority of the pool's own (ca.pem; keep ca.key.pem to yourself) and "
                    "certificates with keys for scheduler, worker and client, by openssl. "
                    "Whoever has one may run programs on the workers.")
    parser.add_argument("folder", type=Path, metavar="DIR", help="a folder without certificates")
    return parser


def _scheduler(args: argparse.Namespace) -> int:
    from runtime.tuning.servers import serve_scheduler

    serve_scheduler(args.port, certificates_of(args.tls), _tell)
    return 0


def _worker(args: argparse.Namespace) -> int:
    from runtime.tuning.servers import serve_worker

    of_boards = ["fpga.target"] if args.device.startswith("board:") else []
    serve_worker(args.address, args.device, certificates_of(args.tls), _tell, args.limit,
                 [*of_boards, *args.imports], args.core)
    return 0


def _certificates(args: argparse.Namespace) -> int:
    from runtime.tuning.certificates import make_certificates

    files = make_certificates(args.folder)
    say(f"wrote {', '.join(path.name for path in files)} in {args.folder}")
    return 0


def _tell(address: str) -> None:
    print(address, flush=True)
