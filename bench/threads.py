"""Does one module give right results in many threads? Eight threads, 200 inferences each, on
digits.

Compares every output with that of a single thread, to the bit. Prints ``threads_inferences`` and
``threads_wrong``; for the host, and for the accelerator on its functional and cycle simulators.
"""

import argparse
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from runtime import compile as compile_model

DIGITS = Path(__file__).parents[1] / "examples" / "digits" / "digits-int8.onnx"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=8)
    parser.add_argument("--each", type=int, default=200, help="inferences of a thread")
    args = parser.parse_args()
    count = args.threads * args.each
    images = np.random.default_rng(0).random((count, 1, 1, 8, 8), np.float32)
    wrong = 0
    for target, sim in (("cpu", "functional"), ("accel:tiny-1x4x4", "functional"),
                        ("accel:tiny-1x4x4", "cycle")):
        module = compile_model(DIGITS, target, sim=sim)
        inputs = [{"image": image} for image in images]
        wanted = [module(one) for one in inputs]
        with ThreadPoolExecutor(args.threads) as pool:
            wrong += sum(not np.array_equal(made["logits"], right["logits"])
                         for made, right in zip(pool.map(module, inputs), wanted, strict=True))
    print("threads_inferences", 3 * count)
    print("threads_wrong", wrong)
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
