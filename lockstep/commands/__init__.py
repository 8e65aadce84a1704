"""The commands, one per module. The command line finds them here; no list names them.

A module ``NAME.py``, here or in a folder inside, provides::

    def add_parser(subparsers) -> argparse.ArgumentParser    # subparsers.add_parser("NAME", ...)
    def run(args: argparse.Namespace) -> int                 # 0 done, 1 found something wrong

It imports the heavy parts of the house inside `run`, so that ``lockstep --help`` is instant, and
raises `compiler.errors.RequestError` (or another `Error`) for a wrong request.
"""
