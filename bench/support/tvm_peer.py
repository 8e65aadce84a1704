"""TVM's MetaSchedule as a peer: run by a Python that has TVM, it knows nothing of this house.

TVM lies in an environment of its own (`pip install apache-tvm==0.27.0.post1
apache-tvm-ffi==0.1.14.post1 psutil xgboost cloudpickle tornado`; with a newer apache-tvm-ffi its
`save_json` ends in a segmentation fault), and tunes for so many seconds: evolutionary search,
XGBoost, images in NHWC, weights in whatever layout it likes.
"""

import json
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from math import ceil
from typing import Any

ROUND_SECONDS = 1.0
TRIALS = 64                 # between looks at the clock
BUILD_SECONDS = 120.0       # of a candidate, at most
LEAST_SECONDS = 0.1         # that the peer measures a candidate


def peer(shape: Sequence[int], seconds: float, target: str) -> None:
    """Tunes, says the number of trials, then times what was found whenever it reads a line."""
    import numpy as np
    import tvm  # type: ignore[import-not-found]
    from tvm.s_tir import meta_schedule as ms  # type: ignore[import-not-found]

    function, made = _function(shape), tvm.target.Target(json.loads(target))
    with tempfile.TemporaryDirectory() as folder:
        begin, trials, database = time.monotonic(), 0, "json"
        model = ms.cost_model.XGBModel(num_tuning_cores=1)
        while time.monotonic() - begin < seconds:
            trials += TRIALS
            database = ms.tune_tir(
                function, target=made, work_dir=folder, max_trials_global=TRIALS,
                num_trials_per_iter=TRIALS // 2, cost_model=model, num_tuning_cores=1, seed=trials,
                database=database, builder=ms.builder.LocalBuilder(
                    max_workers=1, timeout_sec=BUILD_SECONDS),
                runner=ms.runner.LocalRunner(
                    timeout_sec=BUILD_SECONDS, evaluator_config=ms.runner.EvaluatorConfig(
                        1, 3, ceil(1e3 * LEAST_SECONDS), True)))
        schedule = ms.tir_integration.compile_tir(database, function, made)
        built = tvm.compile(schedule.mod if schedule else function, target=made)
    random = np.random.default_rng(0)
    arrays = [tvm.runtime.tensor(random.standard_normal([int(extent) for extent in buffer.shape])
                                 .astype(np.float32))
              for buffer in (schedule.mod["main"] if schedule else function).params]
    print(json.dumps({"trials": trials, "tuned": bool(schedule)}), flush=True)
    run = built["main"]
    for _ in sys.stdin:
        print(least(lambda: run(*arrays)), flush=True)


def _function(shape: Sequence[int]) -> Any:
    from tvm import te  # type: ignore[import-not-found]

    if len(shape) == 3:
        rows, depth, columns = shape
        a, b = te.placeholder((rows, depth), name="a"), te.placeholder((depth, columns), name="b")
        k = te.reduce_axis((0, depth), name="k")
        y = te.compute((rows, columns), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="y")
        return te.create_prim_func([a, b, y]).with_attr("layout_free_buffers", [1])
    channels, size, filters, window, stride = shape
    pad, out = window // 2, (size + 2 * (window // 2) - window) // stride + 1
    x = te.placeholder((1, size, size, channels), name="x")
    w = te.placeholder((window, window, channels, filters), name="w")
    padded = x if not pad else te.compute(
        (1, size + 2 * pad, size + 2 * pad, channels), lambda n, h, v, c: te.if_then_else(
            te.all(h >= pad, h < size + pad, v >= pad, v < size + pad),
            x[n, h - pad, v - pad, c], 0.0), name="padded")
    kh, kw, kc = (te.reduce_axis((0, extent), name=name)
                  for name, extent in (("kh", window), ("kw", window), ("kc", channels)))
    conv = te.compute((1, out, out, filters), lambda n, h, v, f: te.sum(
        padded[n, h * stride + kh, v * stride + kw, kc] * w[kh, kw, kc, f], axis=[kh, kw, kc]),
        name="conv")
    y = te.compute((1, out, out, filters), lambda *at: te.max(conv(*at), 0.0), name="y")
    return te.create_prim_func([x, w, y]).with_attr("layout_free_buffers", [1])


def least(run: Callable[[], object]) -> float:
    """The least processor time of a call, of those of a second."""
    run()
    begin, calls = time.perf_counter(), 0
    while time.perf_counter() - begin < 5e-3:
        run()
        calls += 1
    least, end = float("inf"), time.perf_counter() + ROUND_SECONDS
    while time.perf_counter() < end:
        start = time.thread_time()
        for _ in range(calls):
            run()
        least = min(least, (time.thread_time() - start) / calls)
    return least


if __name__ == "__main__":
    peer(**json.loads(sys.argv[1]))
