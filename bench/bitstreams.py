"""How much of a board does each machine take, and which clock does it reach? From the records of
builds.

Prints a table of the bitstreams that were built here (`fpga.build` keeps them in the cache), or of
the named records. It shows the fastest of several builds of a machine for a board. With ``--write``
the table takes its place in docs/fpga.md.
"""

import argparse
import json
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from compiler.native import cache_folder
from fpga.build import NAMES, RECORDS

PAGE = Path(__file__).parent.parent / "docs" / "fpga.md"
BEGIN, END = "<!-- python -m bench.bitstreams --write -->\n", "<!-- end -->\n"

Record = Mapping[str, Any]


def fastest(records: Iterable[Record]) -> list[Record]:
    """The fastest record of each board and machine, in their order."""
    best: dict[tuple[str, str, str], Record] = {}
    for one in records:
        key = one["board"], one["config"], one["machine"]
        best[key] = max(one, best.get(key, one), key=lambda record: record["mhz"])
    return [best[key] for key in sorted(best)]


def table(records: Iterable[Record]) -> str:
    """The records as a table in Markdown."""
    head = ["board", "machine", *NAMES.values(), "clock (reached), MHz", "peak GOP/s", "seeds"]
    rows = [[one["board"], one["config"], *(_share(one, name) for name in NAMES),
             f"{one['clock_hz'] / 1e6:g} ({one['mhz']:g})", f"{one['peak_gops']:g}",
             str(len(one["seeds"]))] for one in records]
    return "".join(f"| {' | '.join(row)} |\n" for row in (head, ["---"] * len(head), *rows))


def _share(record: Record, name: str) -> str:
    used, of = record["used"][name], record["available"][name]
    return f"{used:,} ({used / of:.0%})"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.bitstreams", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("records", nargs="*", type=Path, metavar="RECORD.json")
    parser.add_argument("--write", action="store_true", help="into docs/fpga.md")
    args = parser.parse_args()
    paths = args.records or sorted((cache_folder() / RECORDS).glob("*/record.json"))
    try:
        records = fastest(json.loads(path.read_text()) for path in paths)
        text = table(records)
    except (OSError, ValueError, KeyError, TypeError) as error:
        print(f"bench.bitstreams: not the record of a build: {error}", file=sys.stderr)
        return 2
    if not records:
        print("bench.bitstreams: no bitstream was built here; run lockstep fpga build",
              file=sys.stderr)
        return 2
    print(text, end="")
    if args.write:
        before, rest = PAGE.read_text().split(BEGIN)
        PAGE.write_text(before + BEGIN + text + END + rest.split(END)[1])
    return 0


if __name__ == "__main__":
    sys.exit(main())
