"""The commands, one a module. The command line finds them here; nothing lists them.

A module ``lockstep/commands/NAME.py`` provides::

    def add_parser(subparsers) -> argparse.ArgumentParser    # subparsers.add_parser("NAME", ...)
    def run(args: argparse.Namespace) -> int                 # 0 done, 1 found something wrong

It imports the heavy parts of the house inside `run`, so that ``lockstep --help`` is instant, and
raises `lockstep.errors.RequestError` (or an error named in `USER_ERRORS`) for a wrong request.
"""
