"""``lockstep reproduce R.json``: results that a command has written, made and compared again."""

import argparse

from lockstep.options.paths import input_file


def add_parser(subparsers) -> argparse.ArgumentParser:
    parser = subparsers.add_parser(
        "reproduce", help="run the command again that wrote results as JSON, and compare",
        description="Run again what run, explore, diff or quantize wrote with --json, from the "
                    "folder in which it was run, and compare all but what the file marks as "
                    "measured, to the bit. No results are taken from the cache or a database. "
                    "Files must have the same bytes as then. Machines and metrics of Python that "
                    "the command line names are run: trust the results like a program. Exit "
                    "status: 0 the same, 1 results differ, 2 the request was wrong, such as a file "
                    "that has changed.")
    parser.add_argument("results", type=input_file, metavar="R.json", help="the results")
    return parser


def run(args: argparse.Namespace) -> int:
    from lockstep.provenance.reproducing import reproduce

    return reproduce(args.results, args.parse)
