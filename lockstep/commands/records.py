"""``lockstep records show|best|merge|export|check``: what searches have measured."""

import argparse

from lockstep.options.arguments import add_json, add_kinds
from lockstep.options.paths import input_file, output_file

TARGET = "a target as lockstep compile takes it"


def add_parser(subparsers) -> argparse.ArgumentParser:
    parser = subparsers.add_parser(
        "records", help="look at, merge, export and check what searches have measured",
        description="Records of trials: which plan was measured for which task on which target, "
                    "and what came of it. They lie in a database in the cache, or in a file. Exit "
                    "status: 0 done, 1 a plan is refused, 2 the request was wrong.")
    add_kinds(parser, ((_add_show, "show"), (_add_best, "best"), (_add_merge, "merge"),
                       (_add_export, "export"), (_add_check, "check")))
    return parser


def run(args: argparse.Namespace) -> int:
    from lockstep.searching import records as _records

    return getattr(_records, args.perform)(args)


def _add_show(kinds) -> argparse.ArgumentParser:
    parser = kinds.add_parser(
        "show", help="list tasks, how many trials each has, and the best value",
        description="List tasks: how many trials each has, how many of these failed, the least "
                    "time or number of cycles, and the last trial.")
    _add_database(parser)
    _add_filters(parser)
    add_json(parser, "write all records as JSON")
    return parser


def _add_best(kinds) -> argparse.ArgumentParser:
    parser = kinds.add_parser(
        "best", help="print the best plan of each task",
        description="Print the best plan of each task. A plan that was measured several times "
                    "counts with its median; one that was refused by the last check does not "
                    "count.")
    _add_database(parser)
    _add_filters(parser)
    add_json(parser, "write the best records as JSON")
    return parser


def _add_merge(kinds) -> argparse.ArgumentParser:
    parser = kinds.add_parser(
        "merge", help="add the records of other databases and exported files",
        description="Add the records of other databases and of files that lockstep records export "
                    "wrote. A record that is there already is not added again.")
    parser.add_argument("files", metavar="FILE", nargs="+", type=input_file,
                        help="a database, or a file of records")
    _add_database(parser, output_file, "the database to add to, made if there is none")
    add_json(parser, "write the numbers as JSON")
    return parser


def _add_export(kinds) -> argparse.ArgumentParser:
    parser = kinds.add_parser(
        "export", help="write records as lines of JSON",
        description="Write records as lines of JSON, in an order that depends on nothing but the "
                    "records. Of a failed trial the error's text is part of them.")
    parser.add_argument("-o", "--output", type=output_file, metavar="FILE.jsonl",
                        help="default: standard output")
    parser.add_argument("--best", action="store_true",
                        help="the best record of each task only, as in lockstep's own file of "
                             "plans")
    _add_database(parser)
    _add_filters(parser)
    return parser


def _add_check(kinds) -> argparse.ArgumentParser:
    parser = kinds.add_parser(
        "check", help="replay plans by the compiler that is here, and say which are refused",
        description="Replay the plans of a target's records by the compiler that is here, and note "
                    "in the database which hold. Refused ones are not used any more. Exit status: "
                    "0 all hold, 1 some are refused, 2 the request was wrong.")
    parser.add_argument("--best", action="store_true",
                        help="replay the plans of each task only until one holds, best first")
    parser.add_argument("--target", default="cpu", metavar="T", help=f"{TARGET} (default cpu)")
    _add_database(parser)
    add_json(parser, "write what holds and what is refused as JSON")
    return parser


def _add_database(parser: argparse.ArgumentParser, kind=input_file,
                  which: str = "the database") -> None:
    parser.add_argument("--db", type=kind, metavar="FILE",
                        help=f"{which} (default: records.sqlite in the cache)")


def _add_filters(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--task", metavar="TEXT",
                        help="only tasks with this in their title, or whose digest begins with it")
    parser.add_argument("--target", metavar="T",
                        help=f"only this target: {TARGET}, or the first digits, at least four, of "
                             f"its fingerprint")
