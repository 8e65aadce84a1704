"""The command line: ``lockstep COMMAND ...``.

Exit status: 0 done; 1 the run found something wrong; 2 the request was wrong, as one line on
standard error says; 3 a defect of Lockstep; 130 and 143 ended by SIGINT and SIGTERM, with all
processes that it started.
"""

import argparse
import gc
import importlib
import io
import os
import pkgutil
import sys
import traceback
from collections.abc import Sequence
from typing import NoReturn

from compiler import processes
from compiler.defects import SAID, DefectError, first_line
from compiler.errors import DEFECT, Error
from lockstep.options.choices import Parser
from lockstep.options.paths import find_networks, require_files
import lockstep.commands

LONGEST_WORD = 300
OUTPUT = 1      # descriptor of standard output


class Version(argparse.Action):
    """``--version``: prints the package's version and ends."""

    def __init__(self, option_strings: Sequence[str], dest: str):
        super().__init__(option_strings, dest, nargs=0, default=argparse.SUPPRESS,
                         help="print the version")

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> NoReturn:
        print(f"lockstep {lockstep.__version__}")
        parser.exit()


def make_parser() -> argparse.ArgumentParser:
    """The parser with every command of `lockstep.commands`; ``args.run`` is the chosen one."""
    parser = Parser(prog="lockstep", description="Compile networks for the Lockstep accelerator, "
                    "run them on its simulators, and check that all parts agree.")
    parser.add_argument("--version", action=Version)
    subparsers = parser.add_subparsers(metavar="COMMAND", required=True)
    for name in sorted(command_modules(), key=lambda name: name.rpartition(".")[2]):
        module = importlib.import_module(name)
        module.add_parser(subparsers).set_defaults(run=module.run)
    return parser


def command_modules() -> list[str]:
    """The modules of the commands, in the folder of commands and in those inside it."""
    return [found.name for found in pkgutil.walk_packages(
        lockstep.commands.__path__, f"{lockstep.commands.__name__}.") if not found.ispkg]


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit status.

    `argv` lacks the program's name. Without `argv` the command is all that this process does: then
    signals end it at once.
    """
    if argv is None:
        processes.end_by_signals()
        gc.set_threshold(10_000)        # most objects live as long as the command does
    if isinstance(sys.stdout, io.TextIOWrapper):        # file names may be in no character set
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        status = run(argv)
        _flush_output()
        return status
    except KeyboardInterrupt:
        return 130
    except OSError as error:
        return _without_output(error)
    except Exception as error:
        if argv is not None:
            raise
        traceback.print_exception(error)
        return _defect(error)
    finally:
        processes.hold()


def _flush_output() -> None:
    if sys.stdout is not None:          # None where the caller has closed it
        sys.stdout.flush()


def _without_output(error: OSError) -> int:
    """The exit status, if standard output failed, which a second flush shows. Otherwise raises the
    error again.
    """
    if sys.stdout is None:
        raise error
    try:
        os.write(OUTPUT, b"\n")
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), OUTPUT)
    else:
        raise error
    if isinstance(error, BrokenPipeError):      # `lockstep isa | head`: the reader has seen enough
        return 0
    print(f"lockstep: error: standard output cannot be written: {error.strerror}", file=sys.stderr)
    return 2


def run(argv: Sequence[str] | None) -> int:
    try:
        parser = make_parser()
        args = parser.parse_args(argv)
        args.words, args.parse = sys.argv[1:] if argv is None else [*argv], parser.parse_args
        find_networks(vars(args))
        require_files(vars(args))
        return args.run(args)
    except SystemExit as stop:  # --help
        return stop.code if isinstance(stop.code, int) else 0
    except Error as error:
        processes.hold()
        if error.exit_status == DEFECT:
            return _defect(error)
        print(f"lockstep: error: {_line(str(error))}", file=sys.stderr)
        return error.exit_status


def _defect(error: Exception) -> int:
    """Says in one line that a defect of Lockstep has ended the command."""
    said = str(error) if isinstance(error, DefectError) else f"{SAID}: {first_line(error)}"
    print(f"lockstep: {_line(said)}", file=sys.stderr)
    return DEFECT


def _line(message: str) -> str:
    """The message in one line; a name that fills a screen is cut."""
    return " ".join(word if len(word) <= LONGEST_WORD else f"{word[:LONGEST_WORD]}..."
                    for word in message.split())
