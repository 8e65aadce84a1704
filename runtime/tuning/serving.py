"""Answers requests, lines of JSON, one after the other: ``python -m runtime.tuning.serving
[MODULE...]`` is the process of a `runtime.tuning.child.Child`.

::

    {"trial": TEXT}     {"result": {"value": 1.2e-5, "unit": "s", "error": "", "details": ""}}
    {"build": TEXT}     {"result": null}, or a failure
    {"device": TEXT}    {"error": ""}, or why it is not here
    {"call": FOLDER, "on": DEVICE}      what `runtime.tuning.sent.called` returns

The modules are imported first. Whatever else writes to standard output writes to standard error.
"""

import importlib
import json
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import IO, Any

from compiler.errors import Error
from runtime.tuning.kinds import run_text
from runtime.tuning.sent import called
from runtime.tuning.trials import Trial, build_trial, one_target


def answer(request: dict[str, Any]) -> dict[str, Any]:
    match request:
        case {"trial": text}:
            return {"result": asdict(run_text(text))}
        case {"build": text}:
            failure = build_trial(Trial.of(text))
            return {"result": failure and asdict(failure)}
        case {"device": text}:
            return {"error": _missing(text)}
        case {"call": folder, "on": device}:
            return called(folder, device)
    raise ValueError(f"a request must be one that is known, not {sorted(request)}")


def _missing(device: str) -> str:
    try:
        one_target(device)
        return ""
    except Error as error:
        return " ".join(str(error).split())


@contextmanager
def _answers() -> Iterator[IO[str]]:
    """Standard output, for answers alone from now on."""
    sys.stdout.flush()
    with os.fdopen(os.dup(1), "w") as answers:
        os.dup2(2, 1)
        yield answers


def main(modules: Sequence[str]) -> int:
    with _answers() as answers:
        for module in modules:
            importlib.import_module(module)
        print(json.dumps({}), file=answers, flush=True)
        for line in sys.stdin:
            print(json.dumps(answer(json.loads(line))), file=answers, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
