"""A decoder with many places: what it takes to compile it, and to simulate one of its tokens."""

import multiprocessing
import os
import resource
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import onnx
from onnx.numpy_helper import from_array, to_array

import lockstep
from accel.machine.loading import load_machine
from accel.machine.machine import Machine
from accel.sim.timed import cycle
from bench.accelerator.weights import with_bits
from compiler.frontend.onnx.importing import convert
from compiler.graph import evaluate, optimize
from compiler.graph.division.states import with_stored_states
from compiler.quantize import quantize_ranges
from lockstep.testing import zoo
from lockstep.testing.networks import decoders
from lockstep.testing.networks.decoders import DecoderSizes
from runtime.driver.decoding import Decoder

TOKENS = 8
"""Tokens of the network from which parameters and ranges come: each takes time, whatever they are.
"""

Values = dict[str, np.ndarray]
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class StepFile:
    """A quantized step as a file, its source, and the output with the row of each cache."""

    file: Path
    source: str
    states: dict[str, str]


@dataclass(frozen=True, slots=True)
class LongFigures:
    """Seconds, peak memory of a process that reads and compiles a step and then makes a token, and
    cycles of the token.
    """

    compile_seconds: float
    compile_processor_seconds: float
    compile_gigabytes: float
    instructions: int
    places_read: int
    token_cycles: int
    timing_seconds: float
    values_seconds: float
    values_gigabytes: float
    equal: bool


def measured(machine: str, sizes: DecoderSizes, places: int, bits: int, position: int
             ) -> LongFigures:
    """Figures of a token at a position, behind random rows. One process makes the network, another
    one compiles it.
    """
    with tempfile.TemporaryDirectory() as folder:
        step = _apart(written, Path(folder), sizes, places, bits)
        return _apart(figures_of, machine, step, bits, position)


def written(folder: Path, sizes: DecoderSizes, places: int, bits: int) -> StepFile:
    """A Llama's step with weights of so many bits."""
    net = zoo.ZooNetwork("llama_small_step", places)
    decoders.llama(net, sizes, True)
    assert net.whole is not None
    net.whole.short = zoo.ZooNetwork(net.whole.name, TOKENS)
    decoders.llama(net.whole.short, sizes)
    net.whole.short.finish()
    filled = zoo.fill(net.finish())
    step = StepFile(folder / "step.onnx", net.source, decoders.states(net))
    model = quantize_ranges(zoo.float_model(net, filled), filled.ranges)
    del filled
    onnx.save(_rounded(model, bits), step.file)
    return step


def _rounded(model: onnx.ModelProto, bits: int) -> onnx.ModelProto:
    """The model with int8 weights rounded to so many bits, and scales that go with them: of 300
    million weights the scales of least squares would take minutes.
    """
    constants = {one.name: one for one in model.graph.initializer}
    factor, most = np.float32(1 << 8 - bits), 1 << bits - 1
    for node in model.graph.node if bits < 8 else ():
        weight = constants.get(node.input[0])
        if node.op_type != "DequantizeLinear" or weight is None or (
                weight.data_type != onnx.TensorProto.INT8):
            continue
        steps = np.rint(to_array(weight) / factor).clip(-most, most - 1).astype(np.int8)
        scale = constants[node.input[1]]
        weight.CopyFrom(from_array(steps, weight.name))
        scale.CopyFrom(from_array(to_array(scale) * factor, scale.name))
    return model


def figures_of(name: str, step: StepFile, bits: int, position: int) -> LongFigures:
    machine = load_machine(name)
    if bits < 8:
        machine = with_bits(machine, bits)
    compiled, work, decoder = _timed(lambda: lockstep.decoder(
        step.file, "accel,cpu", machine=machine, sim="cycle", cache=False, states=step.states))
    peak = _peak()
    token, rows = _drawn(decoder, step.source, position)
    decoder.remember(rows)
    timing, _, cycles = _timed(lambda: _cycles(machine, decoder, position))
    values, _, found = _timed(lambda: decoder(token))
    runs, most = decoder.runs, _peak()
    equal = np.array_equal(found["logits"], _wanted(step, position, rows, token))
    assert cycles == sum(run.cycles for run in runs)
    return LongFigures(
        compiled, work, peak, sum(one.program.count for one in decoder.module.accelerated),
        max(run.places for run in runs) or decoder.places, cycles, timing, values, most, equal)


def _drawn(decoder: Decoder, source: str, position: int) -> tuple[Values, Values]:
    """A random token, and random rows of those before it."""
    rng = np.random.default_rng(1)
    rows = {state.row: rng.standard_normal((*state.type.shape[:state.axis], position,
                                            *state.type.shape[state.axis + 1:]), np.float32)
            for state in decoder.states}
    shape = decoder.module.graph.values[source].shape
    return {source: rng.standard_normal(shape, np.float32)}, rows


def _cycles(machine: Machine, decoder: Decoder, position: int) -> int:
    """The cycles of a token, without its values."""
    segments: tuple[Any, ...] = decoder.module.accelerated
    return sum(cycle.measure(machine, segment.at({"position": position})[0]).cycles
               for segment in segments)


def _wanted(step: StepFile, position: int, rows: Values, token: Values) -> np.ndarray:
    """The logits by the meaning of the graph, in NumPy."""
    graph, states = with_stored_states(optimize(convert(onnx.load(step.file))), step.states)
    caches = {state.cache: state.empty() for state in states}
    for state in states:
        state.put(caches[state.cache], state.stored(rows[state.row]), 0)
    return evaluate(graph, {**token, **caches, "position": np.array([position])})["logits"]


def _timed(work: Callable[[], Result]) -> tuple[float, float, Result]:
    """The seconds that work takes, those of processors, and what it gives."""
    begin, used = time.perf_counter(), _processor()
    result = work()
    return time.perf_counter() - begin, _processor() - used, result


def _processor() -> float:
    """Seconds of processors of this process and of those that it waited for."""
    return sum(os.times()[:4])


def _peak() -> float:
    """The most memory that this process has had, in GB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9


def _apart(work: Callable[..., Result], *arguments: object) -> Result:
    """The result of a function in a process of its own."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(work, *arguments).result()
