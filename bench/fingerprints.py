"""Did a change of structure change a result? Programs, cycles and outputs of the zoo's networks.

    python -m bench.fingerprints -o FILE.json [--networks NAME ...] [--targets TARGET ...]
    python -m bench.fingerprints --compare FILE.json [--networks ...] [--targets ...]

compiles the networks of `examples/zoo.py` at their smallest size, int8 on every target and float32
on the CPU, runs each once on seeded inputs, and records what must stay the same: hashes of the
model, of every program of the accelerator, of the text in C or OpenCL and of every output, the
cycles of every program, segments and copies. `--compare` repeats that for the file's entries, and
prints a table of differences. Exit status 1: something does. 2: the request is wrong.

`auto` divides by fixed prices, so that it divides alike on every computer.

To fingerprint another tree, copy this file elsewhere and run it with PYTHONPATH set to that tree.
What it reads from compiled networks is in `observed`, and how it sets prices in `fixed_prices`.
"""

import argparse
import hashlib
import json
import multiprocessing
import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import onnx

import lockstep
import runtime.driver.costs
from runtime.driver.emitted import emitted, network_in_c
from compiler.plans import OWN
from lockstep.testing import zoo
from lockstep.options.paths import output_file

GEOMETRIES = Path(zoo.__file__).parents[2] / "examples" / "geometries"
TARGETS: Mapping[str, str] = {
    "cpu": "cpu",
    "accel:tiny-1x4x4": "accel:tiny-1x4x4",             # bus of 4 bytes
    "accel:pynq-1x16x16": "accel:pynq-1x16x16",
    "accel:ecp5-1x16x16": "accel:ecp5-1x16x16",         # two beats an entry in vector
    "accel:2x8x8": f"accel:{GEOMETRIES / '2x8x8.toml'}",    # batches of two
    "auto:pynq-1x16x16": "auto:pynq-1x16x16",
    "opencl": "opencl",
}
"""Options of `lockstep.compile`, by the name in the table."""

TEXTS = {"cpu": "c", "opencl": "opencl"}
"""Kinds of `--emit` whose text is recorded, by the name of a target."""

SIZE = 32       # pixels, tokens or frames: the least that every network of the zoo takes
NODE_SECONDS, BYTE_SECONDS, CALL_SECONDS = 40e-6, 1e-9, 2e-6

Fingerprint = dict[str, list[Any] | dict[str, Any]]
Fingerprints = dict[str, Fingerprint]
"""Fingerprints by network, form and target: ``resnet18 int8 cpu``."""


# Access to the internals of compiled networks

def observed(module: Any, inputs: Mapping[str, np.ndarray]) -> Fingerprint:
    """The fingerprint of one run of a compiled network; `programs` and `cycles` in order of
    execution.
    """
    for name, array in inputs.items():
        module.set_input(name, array)
    runs = module.run()
    return {
        "programs": [program_digest(segment.program) for segment in module.accelerated],
        "cycles": [run.cycles for run in runs],
        "outputs": {name: array_digest(module.get_output(name)) for name in module.graph.outputs},
        "segments": [f"{device(segment.target)}: {', '.join(node.name for node in segment.nodes)}"
                     for segment in module.partition.segments],
        "copies": [f"{copy.value}: {device(copy.source)} -> {device(copy.target)}"
                   for copy in module.partition.copies],
    }


@contextmanager
def fixed_prices() -> Iterator[list[str]]:
    """Makes `auto` ask `made_up_seconds` instead of a clock; yields the list of its questions."""
    asked: list[str] = []

    def measured(what: str, run: Callable[[], object]) -> float:
        asked.append(what)
        return made_up_seconds(what)

    with patch.object(runtime.driver.costs, "measured", measured):
        yield asked


def device(target: str) -> str:
    """``cpu`` or ``accel``, for every geometry and every name of the CPU."""
    kind = target.partition(":")[0]
    return "cpu" if kind == "host" else kind


# Fingerprints

def made_up_seconds(what: str) -> float:
    """A fixed time for each node, and for each byte that changes its layout."""
    for pattern, seconds in ((r"segment of (\d+) nodes", NODE_SECONDS),
                             (r"layout .* in (\d+) bytes", BYTE_SECONDS)):
        if found := re.match(pattern, what):
            return int(found[1]) * seconds
    return CALL_SECONDS


def program_digest(program: Any) -> str:
    """A hash of the program's words, its memory image and the places of its tensors."""
    slots = [(slot.name, slot.base, slot.offset, slot.shape, slot.dtype, slot.layout, slot.logical)
             for slot in (*program.inputs, *program.outputs)]
    return digest(program.words.tobytes(), program.image().tobytes(), repr(slots).encode())


def array_digest(array: np.ndarray) -> str:
    return digest(f"{array.dtype} {array.shape}".encode(), np.ascontiguousarray(array).tobytes())


def digest(*parts: bytes) -> str:
    return hashlib.sha256(b"".join(hashlib.sha256(part).digest() for part in parts)).hexdigest()


def text_digests(module: Any, kind: str) -> dict[str, str]:
    """The hash of a network's text; of C, of each of its files."""
    if kind == "c":
        files = network_in_c(module, "net", apart=True)
        parts = {"source": files.source, "header": files.header}
        return {"c weights": digest(files.weights or b""),
                **{f"c {part}": digest(text.encode()) for part, text in parts.items()}}
    return {kind: digest(emitted(module, kind).encode())}


def seeded(net: Any, seed: int = 1) -> dict[str, np.ndarray]:
    """Inputs of the network: its images or tokens, and of a step a position and caches."""
    rng = np.random.default_rng(seed)
    images = zoo.samples(net, seed)
    inputs = {net.source: images[:1] if net.batched else images[0]}
    for name in net.inputs:
        shape = net.shapes[name]
        inputs[name] = (np.array([SIZE // 2]) if name == "position"
                        else rng.standard_normal(shape, np.float32))
    return inputs


def fingerprints(name: str, keys: Sequence[str]) -> Fingerprints:
    """The fingerprints of one network that `keys` name."""
    net = zoo.network(name, SIZE)
    inputs = seeded(net)
    forms: dict[str, onnx.ModelProto] = {}
    found: Fingerprints = {}
    for key in keys:
        _, form, target = key.split(" ", 2)
        if form not in forms:
            forms[form] = zoo.build(name, SIZE, int8=form == "int8")
        begin = time.perf_counter()
        found[key] = _fingerprint(forms[form], target, inputs)
        print(f"{key}: {time.perf_counter() - begin:.1f} s", file=sys.stderr, flush=True)
    return found


def _fingerprint(model: onnx.ModelProto, target: str, inputs: Mapping[str, np.ndarray]
                 ) -> Fingerprint:
    simulator = "functional" if target == "cpu" else "cycle"
    with fixed_prices() as asked:
        module = lockstep.compile(model, TARGETS[target], sim=simulator, cache=False, plans=OWN)
    if target.startswith("auto:") and not asked:
        raise AssertionError(f"{target} asked for none of the made-up prices: adapt fixed_prices")
    return {"model": [digest(model.SerializeToString(deterministic=True))],
            "texts": text_digests(module, TEXTS[target]) if target in TEXTS else {},
            **observed(module, inputs)}


def wanted(networks: Sequence[str], targets: Sequence[str]) -> list[str]:
    return [f"{network} {form} {target}" for network in networks for target in targets
            for form in (("int8", "float32") if target == "cpu" else ("int8",))]


def computed(keys: Sequence[str], jobs: int = 1) -> Fingerprints:
    """The fingerprints in the order of the keys, computed by one process for each network where
    there are `jobs`.
    """
    parts: dict[str, list[str]] = {}
    for key in keys:
        parts.setdefault(key.split(" ")[0], []).append(key)
    if jobs == 1:
        found = list(map(fingerprints, parts, parts.values()))
    else:
        with ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn")) as pool:
            found = list(pool.map(fingerprints, parts, parts.values()))
    together = {key: one for part in found for key, one in part.items()}
    return {key: together[key] for key in keys}


# Comparison

def differences(before: Fingerprints, after: Fingerprints) -> list[tuple[str, str, str, str]]:
    """The differences as rows: network, field, before, after."""
    rows = []
    for key, fingerprint in after.items():
        old, new = _flat(before[key]), _flat(fingerprint)
        rows += [(key, what, str(old.get(what, "-")), str(new.get(what, "-")))
                 for what in {**old, **new} if old.get(what) != new.get(what)]
    return rows


def _flat(fingerprint: Fingerprint) -> dict[str, Any]:
    return {f"{what} {place}": value for what, values in fingerprint.items()
            for place, value in (values.items() if isinstance(values, dict)
                                 else enumerate(values))}


def table(rows: Sequence[Sequence[str]]) -> str:
    """Aligns the rows in columns; long cells are cut."""
    cells = [[cell if len(cell) <= 48 else f"{cell[:45]}..." for cell in row]
             for row in [("network", "what", "before", "after"), *rows]]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)
                               ).rstrip() for row in cells)


# Command

def main(argv: Sequence[str] | None = None) -> int:
    parser, args = _arguments(argv)
    before: Fingerprints = {}
    keys = wanted(args.networks or list(zoo.NETWORKS), args.targets or list(TARGETS))
    if args.compare:
        before = _stored(parser, args.compare)
        keys = [key for key in keys if key in before]
        if not keys:
            parser.error(f"{args.compare} has none of these networks on these targets")
    after = computed(keys, args.jobs)
    if args.output:
        args.output.write_text(json.dumps(after, indent=1) + "\n")
    if not args.compare:
        print(f"{len(after)} fingerprints")
        return 0
    rows = differences(before, after)
    if rows:
        print(table(rows))
    print(f"{len(after)} of {len(before)} fingerprints compared, "
          f"{len({row[0] for row in rows})} differ")
    return 1 if rows else 0


def _stored(parser: argparse.ArgumentParser, path: Path) -> Fingerprints:
    """The file's fingerprints; refuses entries that cannot be compared, so that none is passed
    over.
    """
    try:
        stored = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        parser.error(f"{path} cannot be read: {error}")
    known = wanted(list(zoo.NETWORKS), list(TARGETS))
    for key, fingerprint in stored.items() if isinstance(stored, dict) else [("", None)]:
        if key not in known:
            parser.error(f"{path} must have networks and targets of this command, not {key!r}")
        if not isinstance(fingerprint, dict) or not all(
                isinstance(values, list | dict) for values in fingerprint.values()):
            parser.error(f"{path}: {key} must be a fingerprint that this command wrote")
    return stored


def _arguments(argv: Sequence[str] | None) -> tuple[argparse.ArgumentParser, argparse.Namespace]:
    parser = argparse.ArgumentParser(prog="fingerprints", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", dest="output", type=output_file, metavar="FILE",
                        help="where they go")
    parser.add_argument("--compare", type=Path, metavar="FILE", help="what -o wrote before")
    parser.add_argument("--networks", nargs="+", metavar="NAME", choices=list(zoo.NETWORKS),
                        help=", ".join(zoo.NETWORKS))
    parser.add_argument("--targets", nargs="+", metavar="TARGET", choices=list(TARGETS),
                        help=", ".join(TARGETS))
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="processes (default 1)")
    args = parser.parse_args(argv)
    if not args.output and not args.compare:
        parser.error("-o FILE or --compare FILE must be given")
    if args.jobs < 1:
        parser.error(f"--jobs must be at least 1, not {args.jobs}")
    return parser, args


if __name__ == "__main__":
    sys.exit(main())
