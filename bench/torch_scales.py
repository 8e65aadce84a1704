"""Did a change of the quantizer change a scale? The example networks of PyTorch, quantized.

    python -m bench.torch_scales --store FILE.npz [NAME ...]
    python -m bench.torch_scales --compare FILE.npz [NAME ...]

quantizes each network of `examples/torch_networks.py` (all ten unless told, images of 64) by three
seeded samples. `--store` writes its scales and zero points, hashes of its int8 constants, and how
many layers are in int8. `--compare` does it again for what the file has, prints a line for each
network and each value that differs, and ends with exit status 1 where one does.

To compare with an older tree, store there and compare here: copy this file elsewhere, run the copy
with PYTHONPATH set to that tree and `--store`, then run this with `--compare` and the same file.
What it takes from a tree is in `quantized`, and `bench.support.peers.save_arrays`.
"""

import argparse
import hashlib
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from onnx import numpy_helper

from bench.support.peers import save_arrays

__all__ = ["differences", "main", "quantized"]

SIZE, SAMPLES, SEED = 64, 3, 7

Values = Mapping[str, np.ndarray]


def quantized(name: str) -> dict[str, np.ndarray]:
    """Values of one network, by ``NETWORK/VALUE``."""
    from compiler.frontend import torch_export
    from compiler.quantize import quantize
    from examples.torch_networks import build

    module, inputs = build(name, SIZE, batch=1)
    program = torch_export.exported(module, inputs)
    rng = np.random.default_rng(SEED)
    samples = {}
    for key, tensor in zip(program.graph_signature.user_inputs, inputs, strict=True):
        shape = (SAMPLES, *tensor.shape[1:])
        samples[key] = (rng.standard_normal(shape, np.float32) if tensor.dtype.is_floating_point
                        else rng.integers(0, 50, shape))
    result = quantize(program, samples)
    values = {f"{name}/{constant.name}": kept(constant.name, numpy_helper.to_array(constant))
              for constant in result.model.graph.initializer
              if constant.name.endswith(("_scale", "_zero_point", "_quantized"))}
    layers = [len(result.layers), sum(layer.quantized for layer in result.layers)]
    return values | {f"{name}/layers": np.array(layers)}


def kept(name: str, array: np.ndarray) -> np.ndarray:
    """Scales and zero points as they are; of int8 constants, which are large, a hash."""
    if not name.endswith("_quantized"):
        return array
    content = f"{array.dtype} {array.shape} ".encode() + np.ascontiguousarray(array).tobytes()
    return np.array(hashlib.sha256(content).hexdigest())


def differences(before: Values, after: Values) -> list[str]:
    """A line for each value that differs or that one side lacks."""
    return [f"{name}: {shown(before.get(name))} became {shown(after.get(name))}"
            for name in sorted({*before, *after})
            if not same(before.get(name), after.get(name))]


def same(one: np.ndarray | None, other: np.ndarray | None) -> bool:
    return (one is not None and other is not None and one.dtype == other.dtype
            and np.array_equal(one, other))


def shown(array: np.ndarray | None) -> str:
    return "nothing" if array is None else f"{array.dtype}{list(array.shape)} {array.ravel()[:3]}"


def main(argv: Sequence[str] | None = None) -> int:
    from examples.torch_networks import NETWORKS

    parser = argparse.ArgumentParser(prog="torch_scales", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(NETWORKS)}")
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--store", type=Path, metavar="FILE", help="where the values go")
    what.add_argument("--compare", type=Path, metavar="FILE", help="what --store wrote before")
    args = parser.parse_args(argv)
    unknown = [name for name in args.names if name not in NETWORKS]
    if unknown:
        parser.error(f"NAME must be one of {', '.join(NETWORKS)}, not {unknown[0]!r}")
    if args.store:
        return _store(args.store, args.names or list(NETWORKS))
    before = _stored(parser, args.compare)
    known = list(dict.fromkeys(name.partition("/")[0] for name in before))
    for name in args.names:
        if name not in known:
            parser.error(f"{args.compare} must have {name}; it has {', '.join(known)}")
    return _compare(before, args.names or known)


def _store(path: Path, names: Sequence[str]) -> int:
    values: dict[str, np.ndarray] = {}
    for name in names:
        values |= quantized(name)
        print(f"{name}: {len(values)} values so far", file=sys.stderr, flush=True)
    save_arrays(path, values)
    print(f"{len(values)} values of {len(names)} networks")
    return 0


def _stored(parser: argparse.ArgumentParser, path: Path) -> dict[str, np.ndarray]:
    try:
        with np.load(path) as stored:
            return dict(stored)
    except (OSError, ValueError) as error:
        parser.error(f"{path} cannot be read: {error}")


def _compare(before: Values, names: Sequence[str]) -> int:
    differ = 0
    for name in names:
        own = {key: array for key, array in before.items() if key.startswith(f"{name}/")}
        after = quantized(name)
        lines = differences(own, after)
        print(f"{name}: {len(after)} values, {len(lines)} differ", *lines, sep="\n  ", flush=True)
        differ += len(lines)
    return int(differ > 0)


if __name__ == "__main__":
    sys.exit(main())
