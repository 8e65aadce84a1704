"""The terms on which a network is quantized for a machine."""

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields
from functools import cache
from typing import Any

import numpy as np

from accel.machine.config import ELEMENTS
from accel.machine.intrinsics import SHIPPED
from accel.machine.machine import Machine
from accel.mapping.memory.weights import Slots, slots_of
from compiler.ops.patterns import Pattern
from compiler.ops.records.integer_forms import Stored
from compiler.ops.term_patterns import TermPattern
from compiler.quantize.improve.sparsity import Sparsity, pattern_of
from compiler.quantize.improve.weight_bits import bits_by_name
from compiler.quantize.ranges.refusal import QuantizeRefused
from compiler.te import bits as bits_of
from compiler.te import is_float

ACTIVATION_BITS = {"int8": 8, "int16": 16}
OF_FLOATS = ("keep_float", "example_inputs", "bind", "watch")
"""Options that networks in floats of few bits have too."""
OF_FEW_BITS = {"weight_groups", "scale_bits", "weight_rounding"}
SCALES = (0.0031, 0.02, 0.25, 1.7)      # at which immediates are compared


def quantizer_options(machine: Machine, given: Mapping[str, Any]) -> dict[str, Any]:
    """The options of `compiler.quantize.quantize` for a machine: those that are given, the bits of
    activations that its instructions store, those of its accumulators, a pattern of weights where
    all its products are of sparse ones, and what its instructions match. Raises QuantizeRefused for
    what the machine cannot have.
    """
    config, options = machine.config, dict(given)
    name, stored = config.name, config.output
    if stored not in ACTIVATION_BITS:
        raise QuantizeRefused(f"machine {name} must store integers for a network that is quantized "
                              f"for it, not {stored}")
    bits = options.setdefault("activation_bits", ACTIVATION_BITS[stored])
    if bits not in (known := (16,) if stored == "int16" else (8, 4, 2)):
        raise QuantizeRefused(f"activation bits must be {one_of(known)} for machine {name}, whose "
                              f"instructions store {stored}, not {bits!r}")
    for narrow in bits_by_name(options.get("weight_bits", 8)).values():
        if narrow not in config.weight_bits:
            raise QuantizeRefused(f"weight bits must be {one_of(config.weight_bits)} for machine "
                                  f"{name}, which loads no others, not {narrow}")
    needed, taken = sparsity_of(machine)
    pattern = pattern_of(options.get("sparsity"))
    if pattern and not taken:
        raise QuantizeRefused(f"sparsity must be none for machine {name}, which multiplies zeros "
                              f"like other weights, not {options['sparsity']}")
    if "sparsity" not in options and needed:
        options["sparsity"] = ":".join(map(str, needed))
    if config.accumulator != ELEMENTS["accumulator"][0]:
        options.setdefault("accumulator_bits", bits_of(config.accumulator))
    return {"patterns": machine.patterns, "made_for": _made_for(machine), **options}


def float_options(machine: Machine, given: Mapping[str, Any]) -> dict[str, Any]:
    """The options of `compiler.quantize.in_floats` for a machine that stores floats. Raises
    QuantizeRefused for options of integers, and a machine of which a layer cannot read what another
    writes.
    """
    config = machine.config
    for name in given:
        if name not in OF_FLOATS:
            raise QuantizeRefused(f"{name} must be left out for machine {config.name}, which "
                                  f"stores {config.output}: it is of integers")
    if config.operand != config.output:
        raise QuantizeRefused(f"machine {config.name} must multiply what it stores for a network "
                              f"that is quantized for it, not {config.operand} and {config.output}")
    return {**given, "activations": config.output, "weights": config.weight,
            "made_for": _made_for(machine)}


def _made_for(machine: Machine) -> dict[str, str]:
    return {"machine": _title(machine), "machine_fingerprint": machine_fingerprint(machine)}


def one_of(numbers: Iterable[int]) -> str:
    return " or ".join(map(str, numbers))


def options_of_one(machine: Machine, given: Mapping[str, Any]) -> dict[str, Any]:
    """The options that one of several machines can have of those that are given for all: weights
    have 8 bits where it does not load fewer, and are pruned where it takes sparse ones. One that
    stores floats has none of those of integers.
    """
    if is_float(machine.config.output):
        return {name: value for name, value in given.items() if name in OF_FLOATS}
    options = dict(given)
    if "weight_bits" in options:
        bits = bits_by_name(options["weight_bits"])
        options["weight_bits"] = {name: narrow if narrow in machine.config.weight_bits else 8
                                  for name, narrow in bits.items()}
        if min(options["weight_bits"].values()) == 8:
            for name in OF_FEW_BITS.intersection(options):
                del options[name]
    if not sparsity_of(machine)[1]:
        options.pop("sparsity", None)
    return options


def _title(machine: Machine) -> str:
    """The name of the geometry, with the instructions that the shipped ones lack."""
    shipped = {one.name for one in SHIPPED}
    more = [one.name for one in machine.declarations if one.name not in shipped]
    return machine.config.name + (f" with {', '.join(more)}" if more else "")


@cache
def machine_fingerprint(machine: Machine) -> str:
    """The hash of what the quantizer takes from a machine: machines of one fingerprint have the
    same int8 networks, whatever their clocks and buffers.
    """
    config = machine.config
    floats = [config.operand, config.weight] if is_float(config.output) else []
    parts = [config.output, *floats, config.accumulator, *map(str, config.weight_bits),
             *map(str, sparsity_of(machine)),
             *(text for pattern in machine.patterns for text in _pattern_texts(pattern))]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def _pattern_texts(pattern: Pattern | TermPattern) -> Iterator[str]:
    """Writes all that a pattern says; its immediates by their numbers for some scales, however they
    are written.
    """
    for field in fields(pattern):
        if field.name != "immediates":
            yield f"{field.name} {getattr(pattern, field.name)!r}"
    if isinstance(pattern, Pattern):
        yield str(_sampled(pattern))


def _sampled(pattern: Pattern) -> list[str]:
    """The immediates for a few scales, zero points and constants, or why there are none."""
    found = []
    constants = [np.linspace(-number, 1, 5) for number, _ in enumerate(pattern.constants)]
    for place, factor in enumerate(SCALES):
        *inputs, out = (Stored(f"x{number}", factor * (number + 1), place - number)
                        for number in range(len(pattern.inputs) + 1))
        try:
            told = pattern.immediates(*inputs, *constants, out)
            found.append(str(sorted((name, np.asarray(number).tolist())
                                    for name, number in told.items())))
        except (ValueError, ArithmeticError) as reason:
            found.append(str(reason))
    return found


def sparsity_of(machine: Machine) -> tuple[Sparsity | None, list[Sparsity]]:
    """The pattern of weights without which every product of the machine takes several passes, None
    where there is none; and the patterns of all products that have one.
    """
    products = [slots for body in machine.of_unit("gemm") if (slots := slots_of(body)) is not None]
    patterns = [_pattern(slots) for slots in products]
    sparse = [pattern for pattern in patterns if pattern]
    return (sparse[0] if sparse and all(patterns) else None), sparse


def _pattern(slots: Slots) -> Sparsity | None:
    """M and N where a product has terms for M of N neighbouring inputs; None where for all."""
    reached = slots.codes >= 0
    size = int(reached[0, 0].sum())
    if not size or reached.shape[2] % size:
        return None
    groups = reached.reshape(*reached.shape[:2], -1, size)
    counts = groups.all(axis=-1).sum(axis=1)        # terms of each group of inputs
    stays = int(counts[0, 0])
    whole = (groups.all(axis=-1) == groups.any(axis=-1)).all() and np.all(counts == stays)
    return (stays, size) if whole and 0 < stays < size else None
