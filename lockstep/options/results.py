"""Options of commands that measure: their results as rows and as pictures."""

import argparse

from lockstep.options.paths import output_file, picture_folder

PICTURES = ("svg", "pdf")
"""Kinds of files of pictures, and the options that ask for them."""


def add_rows(parser: argparse._ActionsContainer, what: str) -> None:
    """Adds the options that write rows."""
    parser.add_argument("--csv", type=output_file, metavar="FILE.csv",
                        help=f"write {what} as CSV: all columns, numbers as they are")
    parser.add_argument("--tsv", action="store_true",
                        help="print these as TSV, and nothing else, in place of tables")


def add_pictures(parser: argparse._ActionsContainer) -> None:
    """Adds the options that write pictures."""
    for kind in PICTURES:
        parser.add_argument(f"--{kind}", type=picture_folder, metavar="DIR",
                            help=f"write each picture of the page into this folder, as "
                                 f"{kind.upper()} (extra pictures)")
