"""Many inferences on a board, and their cost."""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from fpga.device import BoardDevice
from runtime import Graph, InputError, Module, report

LABELS = "labels"

Arrays = dict[str, np.ndarray]


def inferences(graph: Graph, given: Mapping[str, np.ndarray]
               ) -> tuple[list[Arrays], np.ndarray | None]:
    """The inputs of single inferences of a network, and their classes if an array has that name.

    The first axis of each input may be a multiple of the network's. Raises InputError for arrays
    of other shapes.
    """
    inputs = {name: array for name, array in given.items()
              if name in graph.inputs or name != LABELS}
    counts: dict[str, int] = {}
    wanted: dict[str, tuple[int, ...]] = {name: graph.values[name].shape for name in graph.inputs}
    for name, array in inputs.items():
        if name not in wanted:
            raise InputError(f"Input must be one of {', '.join(wanted)}, not {name!r}")
        shape = wanted[name]
        axes = len(shape)
        whole = (axes > 0 and array.ndim == axes and array.shape[0] > 0
                 and array.shape[0] % shape[0] == 0)
        if array.shape != shape and not (whole and array.shape[1:] == shape[1:]):
            raise InputError(f"Input {name!r} must be of shape {shape}, or so many times longer, "
                             f"not {array.shape}")
        counts[name] = array.shape[0] // shape[0] if axes else 1
    count = max(counts.values(), default=1)
    if odd := [name for name, images in counts.items() if images not in (1, count)]:
        raise InputError(f"Input {odd[0]!r} must be there for {count} inferences, "
                         f"not {counts[odd[0]]}")
    samples = [{name: array if counts[name] == 1 else
                array[number * wanted[name][0]:(number + 1) * wanted[name][0]]
                for name, array in inputs.items()} for number in range(count)]
    labels = given[LABELS] if LABELS in given and LABELS not in wanted else None
    first = graph.values[graph.outputs[0]].shape
    total = count * (first[0] if len(first) > 1 else 1)
    if labels is not None and labels.size != total:
        raise InputError(f"Array {LABELS!r} must hold {total} classes, not {labels.size}")
    return samples, None if labels is None else labels.reshape(-1)


def infer(module: Module, device: BoardDevice, samples: Sequence[Arrays],
          heard: Callable[[int], None] = lambda done: None) -> tuple[list[Arrays], dict[str, Any]]:
    """The outputs of each inference, and figures as in `runtime.report`: those of the last
    inference, with its seconds at the board's clock and the `wall_seconds` of all. `heard` is
    called with the number of finished inferences.
    """
    outputs, begin, runs = [], time.perf_counter(), ()
    for number, sample in enumerate(samples):
        for name, array in sample.items():
            module.set_input(name, array)
        runs = module.run()
        outputs.append({name: module.get_output(name) for name in module.graph.outputs})
        heard(number + 1)
    figures = report(module, runs, device.machine, time.perf_counter() - begin)
    link = device.link
    return outputs, figures | {
        "seconds": figures["cycles"] / device.clock_hz, "clock_hz": device.clock_hz,
        "inferences": len(samples), "link": {
            "repeated": link.repeated, "dropped": link.dropped, "faults": link.faults}}


def classes(outputs: Sequence[Arrays]) -> np.ndarray:
    """The position of the largest value in each row of the first output, for each inference."""
    firsts = [next(iter(arrays.values())) for arrays in outputs]
    return np.concatenate([first.reshape(len(first) if first.ndim > 1 else 1, -1).argmax(axis=1)
                           for first in firsts])
