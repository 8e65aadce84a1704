"""A training as ``lockstep train`` is asked for it."""

import argparse
import hashlib
import json
import math
import os
import time
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np
import onnx

from compiler.errors import RequestError
from compiler.files import whole_file
from compiler.frontend.models import is_of_keras, is_of_torch, read_file
from compiler.gradients import (Adam, LearningRates, Sgd, Trainable, cross_entropy,
                                mean_squared_error, trainable)
from compiler.gradients.trainable import with_initializers
from compiler.graph.graph import Graph
from compiler.quantize.networks.source import is_quantized
from compiler.quantize.quantizer import Quantized, quantize
from compiler.quantize.training.form import QuantizedTraining
from lockstep.options.arguments import quantizer_options
from lockstep.options.paths import FileName
from lockstep.printing.lines import say
from lockstep.printing.progress import progress_bar, watching
from lockstep.provenance import Asked
from lockstep.training.data import drawn_rows, first_rows, function_of, generated, read_arrays
from runtime.driver.courses import Course, Draw
from runtime.driver.training import Trainer

LOSSES = {"cross_entropy": cross_entropy, "mean_squared_error": mean_squared_error}
OPTIMIZERS = ("sgd", "adam")
CALIBRATE = 256
"""The most rows that ranges are taken from, unless told."""


def train(args: argparse.Namespace) -> int:
    """Performs the command; returns its exit status."""
    asked, optimizer, options = Asked.of(args), optimizer_of(args), quantizer_options(args)
    _require_checkpoint(args)
    if not args.quantize and (given := [*options, *["calibrate"] * (args.calibrate is not None)]):
        raise RequestError(f"--{given[0].replace('_', '-')} needs --quantize")
    model = _model(args)
    network = trainable(model, args.batch, seed=args.seed, name=args.model.stem,
                        freeze=() if args.quantize else args.freeze, shapes=dict(args.shape))
    graph = _with_loss(args, network.graph)
    fed = _fed(graph, network)
    draw, steps, data = _data(args, fed)
    if args.quantize:
        network = _quantized(args, options, network, draw, _rows_at_once(model))
        graph = _with_loss(args, network.graph)
    schedule = LearningRates(args.schedule, steps or 0, args.warm_up, args.drop_every or 0,
                             args.drop_to)
    trainer = Trainer(graph, parameters=network.parameters, optimizer=optimizer,
                      statistics=network.statistics, counter=network.counter, memory=args.memory,
                      target=args.target)
    identity = {"network": _hash(model.SerializeToString(deterministic=True)), "data": data,
                "loss": args.loss, "of": args.of, "batch": args.batch, "seed": args.seed,
                "freeze": list(args.freeze), "optimizer": f"{args.optimizer} {asdict(optimizer)}",
                "schedule": str(asdict(schedule))}
    if args.quantize:
        identity["quantize"] = f"{args.calibrate or CALIBRATE} rows, {options}"
    course = Course(trainer, draw, schedule, args.checkpoint, args.every, identity)
    if args.resume:
        course.resume()
    begin, before = time.perf_counter(), trainer.steps
    with progress_bar(args.model.title, steps or 0, lambda: trainer.steps,
                      told=lambda: _now(course)):
        course.run(steps)
    seconds = time.perf_counter() - begin
    if not course.losses:
        raise RequestError(f"--data {args.data} must have a batch, and has none")
    _write(args, model, network, course, {
        "model": args.model.title, "output": str(args.output), "loss": args.loss,
        "steps": trainer.steps, "continued_from": before, "seconds": round(seconds, 3),
        "parameters": len(network.parameters),
        "numbers": sum(graph.constants[name].size for name in network.parameters),
        "statistics": len(network.statistics), "activation_bytes": trainer.activation_bytes,
        "memory": args.memory, "quantize": options if args.quantize else None,
        "losses": course.losses, "rates": course.rates,
        "provenance": asked.provenance({}, ["seconds"])})
    return 0


def optimizer_of(args: argparse.Namespace) -> Sgd | Adam:
    """The optimizer with the numbers that were given. Raises ArgumentError for those of none."""
    rate = {} if args.rate is None else {"rate": args.rate}
    momentum = {} if args.momentum is None else {
        "momentum" if args.optimizer == "sgd" else "mean": args.momentum}
    return (Sgd if args.optimizer == "sgd" else Adam)(decay=args.decay, **rate, **momentum)


def _require_checkpoint(args: argparse.Namespace) -> None:
    if args.resume and not args.checkpoint:
        raise RequestError("--resume needs --checkpoint FILE, from which to continue")
    there = args.checkpoint and os.path.exists(args.checkpoint) and os.path.getsize(args.checkpoint)
    if args.resume and not there:
        raise RequestError(f"--resume needs the checkpoint {str(args.checkpoint)!r}, which is not "
                           "there; leave --resume out to begin")
    if there and not args.resume:
        raise RequestError(f"--checkpoint {str(args.checkpoint)!r} is there already; give --resume "
                           "to continue, or remove it to begin anew")


def _model(args: argparse.Namespace) -> onnx.ModelProto:
    if is_of_torch(args.model) or is_of_keras(args.model):
        raise RequestError(f"{args.model.title!r} must be a network that is or becomes ONNX; "
                           "export it as ONNX first")
    if is_quantized(args.model):
        raise RequestError(f"{args.model.title!r} is quantized already, and integers are not "
                           "learned; give the network in float, with --quantize")
    return read_file(args.model).model


def _with_loss(args: argparse.Namespace, graph: Graph) -> Graph:
    of = args.of
    if of is None:
        if len(graph.outputs) != 1:
            raise RequestError(f"--of OUTPUT must name an output of {args.model.title!r}: "
                               f"{', '.join(graph.outputs)}")
        of = graph.outputs[0]
    return LOSSES[args.loss](graph, of)


def _fed(graph: Graph, network: Trainable) -> Graph:
    """The graph with the inputs alone that data have."""
    inputs = tuple(name for name in graph.inputs if name != network.counter)
    return Graph(graph.name, inputs, (), (), {name: graph.values[name] for name in inputs})


def _rows_at_once(model: onnx.ModelProto) -> int:
    """The rows that samples of a network must have a multiple of; 1 where it takes any."""
    known = {tensor.name for tensor in model.graph.initializer}
    return math.lcm(*(max(value.type.tensor_type.shape.dim[0].dim_value, 1)
                      for value in model.graph.input
                      if value.name not in known and value.type.tensor_type.shape.dim))


def _quantized(args: argparse.Namespace, options: Mapping[str, Any], network: Trainable,
               draw: Draw, at_once: int) -> QuantizedTraining[Quantized]:
    """The network quantized by the first rows of the data, in training. It takes so many rows
    `at_once`; what remains is left out."""
    inputs = [name for name in network.graph.inputs if name != network.counter]
    rows = {network.graph.values[name].shape[:1] for name in inputs}
    count = args.calibrate or CALIBRATE
    if args.calibrate and count < at_once:
        raise RequestError(f"--calibrate must be at least the {at_once} rows that "
                           f"{args.model.title!r} takes at a time, not {count}")
    samples = {name: array[:len(array) - len(array) % at_once or None]
               for name, array in first_rows(draw, inputs, max(count, at_once)).items()}
    if not samples:
        raise RequestError(f"--data {args.data} must have a batch, and has none")
    quantized = quantize(args.model, samples, watch=watching(args.model.title), **options)
    return quantized.trainable(max(rows)[0] if len(rows) == 1 and max(rows) else None,
                               freeze=args.freeze)


def _data(args: argparse.Namespace, fed: Graph) -> tuple[Draw, int | None, str]:
    """The batches, how many steps there are at most, and what the data are called."""
    if isinstance(args.data, FileName):
        arrays = read_arrays(args.data, fed)
        size = fed.values[fed.inputs[0]].shape[0]
        steps = args.epochs * (len(arrays[fed.inputs[0]]) // size)
        if args.steps and args.steps > steps:
            raise RequestError(f"--steps {args.steps} must be at most the {steps} of --epochs "
                               f"{args.epochs}")
        draw = drawn_rows(arrays, size, args.epochs, args.seed)
        return draw, args.steps or steps, _hash_of(arrays)
    if args.schedule == "cosine" and not args.steps:
        raise RequestError("--schedule cosine needs --steps N where a function gives the data")
    return generated(function_of(args.data), fed, args.epochs), args.steps, str(args.data)


def _now(course: Course) -> str:
    """Loss and rate, beside the bar."""
    if not course.rates:
        return ""
    return f": loss {course.losses[-1]:.4g}, rate {course.rates[-1]:.3g}"


def _write(args: argparse.Namespace, model: onnx.ModelProto, network: Trainable, course: Course,
           figures: dict[str, Any]) -> None:
    arrays = course.trainer.parameters | course.trainer.statistics
    if isinstance(network, QuantizedTraining):
        made = network.trained(arrays)
        model, figures["layers"] = made.model, len(made.layers)
        figures["quantized"] = sum(layer.quantized for layer in made.layers)
    else:
        model = with_initializers(model, arrays)
    data = model.SerializeToString(deterministic=True)
    figures["sha256"] = _hash(data)
    with whole_file(args.output) as file:
        file.write(data)
    if args.json:
        with whole_file(args.json) as file:
            file.write(f"{json.dumps(figures, indent=1)}\n".encode())
    if args.page:
        from lockstep.report.training import write_training_page

        with whole_file(args.page) as file:
            write_training_page(file, figures)
    for line in told(figures):
        say(line)


def told(figures: Mapping[str, Any]) -> list[str]:
    """The lines that say what came of it; the last loss is a mean of a few."""
    losses, few = figures["losses"], min(10, len(figures["losses"]))
    continued = f", continued from step {figures['continued_from']:,}" \
        if figures["continued_from"] else ""
    averages = f", {figures['statistics']} running statistics" if figures["statistics"] else ""
    layers = [f"{figures['quantized']} of {figures['layers']} layers are quantized"] \
        if figures["quantize"] is not None else []
    return [
        f"{figures['parameters']} weights of {figures['numbers']:,} numbers{averages}; activations "
        f"take {figures['activation_bytes']:,} bytes",
        f"loss {losses[0]:.4g} in the first step, {np.mean(losses[-few:]):.4g} in the last {few} "
        f"of {figures['steps']:,}{continued}", *layers,
        f"{figures['output']}: sha256 {figures['sha256'][:16]}"]


def _hash_of(arrays: Mapping[str, np.ndarray]) -> str:
    found = hashlib.sha256()
    for name in sorted(arrays):
        found.update(f"{name} {arrays[name].dtype} {arrays[name].shape} ".encode())
        found.update(arrays[name].tobytes())
    return found.hexdigest()


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
