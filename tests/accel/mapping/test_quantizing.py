"""What follows for the quantizer from a machine, and what it cannot have."""

import re
from dataclasses import replace

import pytest

from accel.machine.config import preset
from accel.machine.intrinsics import SHIPPED, vector_op
from accel.machine.machine import Machine
from accel.mapping.quantizing import quantizer_options, sparsity_of
from compiler.quantize import QuantizeRefused
from tests.support.machines import HALVED, LONG, MACHINES, PACKED, SPARSE, TINY, example

FLOATS = example("bfloat16")


def given(machine: Machine, **options) -> dict:
    made = quantizer_options(machine, options)
    assert made.pop("patterns") == machine.patterns
    assert made.pop("made_for")["machine"].split()[0] == machine.config.name
    return made


@pytest.mark.parametrize("machine", MACHINES.values(), ids=MACHINES)
def test_shipped_instructions_change_nothing(machine: Machine) -> None:
    assert given(machine) == {"activation_bits": 8}
    assert given(machine, observer="mse", activation_bits=8) == {"observer": "mse",
                                                                 "activation_bits": 8}
    assert given(machine, activation_bits=4) == {"activation_bits": 4}


def test_bits_are_those_that_are_stored() -> None:
    assert given(LONG) == {"activation_bits": 16}
    assert given(example("int16_deep")) == {"activation_bits": 16, "accumulator_bits": 48}
    assert given(example("int16_deep"), accumulator_bits=32)["accumulator_bits"] == 32


@pytest.mark.parametrize("like", [TINY, Machine(preset("pynq-1x16x16"))])
def test_weights_are_pruned_where_no_product_takes_all(like: Machine) -> None:
    assert given(example("halved", like))["sparsity"] == "2:4"
    assert "sparsity" not in given(example("sparse", like))
    assert sparsity_of(example("sparse", like)) == (None, [(2, 4)])


def test_what_is_given_counts() -> None:
    assert given(HALVED, sparsity="none")["sparsity"] == "none"
    assert given(HALVED, sparsity="1:4")["sparsity"] == "1:4"
    assert given(SPARSE, sparsity="2:4")["sparsity"] == "2:4"
    assert given(TINY, sparsity="none")["sparsity"] == "none"
    assert given(PACKED, weight_bits=["4", "fc=2"])["weight_bits"] == ["4", "fc=2"]


def test_patterns_are_handed_on() -> None:
    machine = Machine(TINY.config, (*SHIPPED, vector_op("own", lambda a: a >> 1,
                                                        matches=lambda x: x / 2)))
    assert [one.name for one in quantizer_options(machine, {})["patterns"]] == ["own"]
    assert quantizer_options(machine, {"patterns": ()})["patterns"] == ()


@pytest.mark.parametrize(("machine", "options", "message"), [
    (TINY, {"activation_bits": 16}, "activation bits must be 8 or 4 or 2 for machine tiny-1x4x4, "
                                    "whose instructions store int8, not 16"),
    (LONG, {"activation_bits": 8}, "activation bits must be 16 for machine int16, whose "
                                   "instructions store int16, not 8"),
    (FLOATS, {}, "machine tiny-1x4x4 must store integers for a network that is quantized for it, "
                 "not bfloat16"),
    (TINY, {"weight_bits": 4}, "weight bits must be 8 for machine tiny-1x4x4, which loads no "
                               "others, not 4"),
    (Machine(replace(PACKED.config, weight_bits=(8, 4))), {"weight_bits": {"fc": 2}},
     "weight bits must be 8 or 4 for machine packed, which loads no others, not 2"),
    (TINY, {"sparsity": "2:4"}, "sparsity must be none for machine tiny-1x4x4, which multiplies "
                                "zeros like other weights, not 2:4"),
    (SPARSE, {"sparsity": "4:2"}, "sparsity must be N:M with 0 < N < M < 100, such as 2:4, not "
                                  "'4:2'")])
def test_contradictions_are_refused(machine: Machine, options: dict, message: str) -> None:
    with pytest.raises(QuantizeRefused, match=f"^{re.escape(message)}$"):
        quantizer_options(machine, options)
