"""Whole inferences of networks in float, explored: what a new user waits for, from an empty cache.

    python -m bench searches.whole [--size 64] [--processes N] [--json FILE]

24 machines like ``pynq-1x16x16``: two sizes of the array, three of a buffer, each with and without
two added instructions, one of which (a sum with its relu) the residual network uses. Each machine
gets the networks quantized for it by eight images; the table has accuracy by eight others, and the
host's part. Times are wall-clock times; processor time is told beside them.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from bench.frame import Bench, Sheet
from lockstep.testing.zoo import images
from runtime.tuning.children import usable_cores

BASE = "pynq-1x16x16"
NETWORKS = ("resnet18", "mobilenet_v2")
ADDED = ("bench/inputs/addrelu.py", "examples/machines/hardswish.py")
VARIED = ("block_out=8,16", "wgt=half,same,double")
SAMPLES = 8
ROOT = Path(__file__).parents[2]

BENCH = Bench(__file__, __doc__)
BENCH.option("--size", type=int, default=64, help="of images, in pixels")
BENCH.option("--processes", type=int, default=usable_cores())


@BENCH.part(NETWORKS)
def explored(sheet: Sheet) -> None:
    with tempfile.TemporaryDirectory() as folder:
        files = samples(Path(folder), sheet.size)
        command = command_of(sheet.cases, sheet.size, files, sheet.processes, Path(folder))
        begin = time.monotonic()
        subprocess.run(command, env={**os.environ, "LOCKSTEP_CACHE": folder}, check=True,
                       cwd=ROOT)
        seconds = time.monotonic() - begin
        answer = json.loads((Path(folder) / "a.json").read_text())
    used, points = os.times(), answer["points"]
    for name, value in (
            ("whole_minutes", seconds / 60), ("whole_machines", len(points)),
            ("whole_processor_minutes", (used.children_user + used.children_system) / 60),
            ("whole_processes", sheet.processes), ("whole_failed", len(answer["failed"])),
            ("whole_least_accuracy_db", min(point["values"]["accuracy"][0] for point in points)),
            ("whole_most_host_share", max(point["host_share"] for point in points)),
            ("whole_front_wrong", sum(bool(point["checked"]) for point in points))):
        sheet.figure(name, value, ".4g" if isinstance(value, float) else "")
    sheet.is_wrong |= any(point["checked"] for point in points)


def samples(folder: Path, size: int) -> tuple[Path, Path]:
    """Files of images for calibration, and of others for accuracy."""
    files = folder / "calibration.npz", folder / "held_out.npz"
    for number, file in enumerate(files):
        several = [images(size, seed) for seed in range(SAMPLES * number, SAMPLES * (number + 1))]
        np.savez(file, image=np.concatenate([one[:1] for one in several]))
    return files


def command_of(networks: Sequence[str], size: int, files: tuple[Path, Path], processes: int,
               folder: Path) -> list[str]:
    """The exploration, which writes ``a.json``."""
    return [sys.executable, "-m", "lockstep", "explore", *(f"{name}@{size}" for name in networks),
            "--base", BASE, "--calibration", str(files[0]), "--held-out", str(files[1]),
            *(word for text in VARIED for word in ("--vary", text)),
            *(word for source in ADDED for word in ("--add", source)),
            "--objective", "ms,energy,accuracy", "--processes", str(processes),
            "--json", str(folder / "a.json")]


if __name__ == "__main__":
    sys.exit(BENCH.main())
