"""Programs: segments, tensors, refusals, and the text of instructions."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accel.machine import isa
from accel.machine.config import preset
from accel.machine.machine import Machine
from accel.machine.program import (Instruction, AccelProgram, ProgramError, TensorSlot, disassemble,
                                   finish)
from accel.machine.origins import Loop, Origin, Origins, Site
from compiler.ops.integers.arithmetic import PARAM
from compiler.te import numpy_dtype
from tests.support.machines import PACKED
from tests.support.strategies import word_fields

MACHINE = Machine(preset("tiny-1x4x4"))
X = TensorSlot("x", "io", 0, (2, 3), "int8")
P = TensorSlot("p", "io", 64, (2,), PARAM)
Y = TensorSlot("y", "io", 128, (2, 2), "int32")


def program(*stream: Instruction, **parts) -> AccelProgram:
    parts = {"io_bytes": 144, "inputs": (X, P), "outputs": (Y,), **parts}
    return AccelProgram.assemble(MACHINE, [*stream, finish()], **parts)


def test_segments_follow_each_other_aligned() -> None:
    made = program(finish(), weights=np.arange(65, dtype=np.uint8), activations_bytes=1)
    assert made.segment_sizes == {"program": 128, "weights": 65, "activations": 1, "io": 144}
    assert made.bases == {"program": 0, "weights": 128, "activations": 256, "io": 320}
    assert made.memory_bytes == 320 + 192
    assert program().bases == {"program": 0, "weights": 64, "activations": 64, "io": 64}


def test_the_image_holds_program_weights_and_inputs() -> None:
    made = program(weights=np.arange(1, 66, dtype=np.uint8))
    x = np.arange(-3, 3, dtype=np.int8).reshape(2, 3)
    p = np.zeros(2, numpy_dtype(PARAM))
    p["bias"], p["mult"], p["shift"] = [-2, 0x01020304], [0xFFFE, 1], [46, 0]
    image = made.image({"x": x, "p": p})
    wanted = np.zeros(made.memory_bytes, np.uint8)
    wanted[0] = 1
    wanted[64:129] = np.arange(1, 66)
    wanted[192:198] = x.reshape(-1).view(np.uint8)
    wanted[256:272] = [0xFE, 0xFF, 0xFF, 0xFF, 0xFE, 0xFF, 46, 0, 4, 3, 2, 1, 1, 0, 0, 0]
    np.testing.assert_array_equal(image, wanted)
    assert not np.shares_memory(image, made.weights)


def test_an_input_may_be_stored_in_any_order() -> None:
    x = np.arange(6, dtype=np.int8).reshape(3, 2).T
    made = program()
    np.testing.assert_array_equal(made.extract(made.image({"x": x}), "x"), x)


def test_tensors_are_extracted_by_name() -> None:
    made = program()
    memory = np.zeros(made.memory_bytes, np.uint8)
    memory[64 + 128:64 + 144] = np.array([1, -2, 3, 1 << 30], "<i4").view(np.uint8)
    found = made.extract(memory, "y")
    assert found.dtype == np.int32 and found.tolist() == [[1, -2], [3, 1 << 30]]
    memory[:] = 0
    assert found[0, 1] == -2


def test_an_input_that_does_not_fit_is_refused() -> None:
    for array, found in ((np.zeros((3, 2), np.int8), "int8 of shape (3, 2)"),
                         (np.zeros((2, 3), np.float32), "float32 of shape (2, 3)"),
                         (np.zeros((2, 3), np.uint8), "uint8 of shape (2, 3)")):
        with pytest.raises(ProgramError) as refusal:
            program().image({"x": array})
        assert str(refusal.value) == f"Input x must be int8 of shape (2, 3), not {found}"


def test_an_unknown_tensor_is_refused() -> None:
    for act in (lambda: program().image({"z": np.zeros(1)}),
                lambda: program().extract(np.zeros(0, np.uint8), "z")):
        with pytest.raises(ProgramError, match=r"^Tensor must be one of x, p, y, not 'z'$"):
            act()


def test_another_machine_is_refused() -> None:
    other = Machine(replace(MACHINE.config, queue_depth=4))
    program().require(MACHINE)
    with pytest.raises(ProgramError) as refusal:
        program().require(other)
    assert str(refusal.value) == (
        f"Program was compiled for machine {MACHINE.hash[:12]} (tiny-1x4x4), not "
        f"{other.hash[:12]} (tiny-1x4x4): queue_depth is 8, not 4; compile it again")
    unknown = replace(program(), machine=None)
    with pytest.raises(ProgramError) as refusal:
        unknown.require(other)
    assert str(refusal.value) == (
        f"Program was compiled for machine {MACHINE.hash[:12]}, not {other.hash[:12]} "
        f"(tiny-1x4x4); compile it again")


def test_instructions_are_decoded_with_their_labels() -> None:
    load = Instruction("load", "load", {"run": 8, "waits": 2, "signals": 9},
                       Origin(Site("layer", (Loop("y", 2),)), (1,)))
    first, last = program(load).instructions(MACHINE)
    assert (first.name, first.unit, first.label) == ("load", "load", "layer y=1")
    assert (first.waits, first.signals) == (("gemm",), ("load", "store"))
    assert first.fields["run"] == 8 and first.fields["opcode"] == MACHINE.opcodes["load"]
    assert (last.name, last.unit, last.label, last.waits) == ("finish", "fetch", "", ())
    assert program(load).labels == ("layer y=1", "")
    unknown = replace(program(load), origins=Origins())
    assert unknown.instructions(MACHINE)[0].label == "" and unknown.labels == ("", "")


@pytest.mark.parametrize("opcode", [0, 19, 255])
def test_an_unknown_opcode_is_illegal(opcode: int) -> None:
    found = Instruction.decode(MACHINE, opcode | 0xF0 << 300)
    assert (found.name, found.unit, disassemble(found)) == (
        "illegal", "illegal", f"illegal opcode={opcode}")


TEXTS = {
    "finish": (finish(), "finish"),
    "load": (Instruction("load", "load", {
        "waits": 8, "signals": 6, "buffer": 1, "base": 3, "dram": 5, "address": 16, "run": 12,
        "pad_value": 128, "loops": [{}, {"extent": 2, "buffer": 3}, {
            "extent": 3, "dram": -7, "buffer": 12, "before": 1, "after": 2},
            {"before": 1}]}),
        "load wait=store signal=gemm,vector buffer=wgt base=io dram=5 address=16 run=12 "
        "pad_value=128 [2x buffer+3] [3x dram-7 buffer+12 pad=1,2] [1x pad=1,0]"),
    "store": (Instruction("store", "store", {"buffer": 5, "base": 2}),
              "store buffer=out base=activations dram=0 address=0 run=1"),
    "no buffer": (Instruction("store", "store", {"buffer": 7}),
                  "store buffer=7 base=program dram=0 address=0 run=1"),
    "gemm": (Instruction("gemm", "gemm", {
        "signals": 4, "banks": 1, "reset": 1, "base": {"a": 2, "dst": 1},
        "loops": [{"extent": 3, "b": 7, "dst": 1}, {"extent": 9}]}),
        "gemm signal=vector banks=1 reset=1 dst=1 a=2 b=0 [3x dst+1 b+7] [9x]"),
    "vector": (Instruction("requantize", "vector", {
        "banks": 2, "b_source": 2, "destination": 1, "base": {"dst": 1, "b": 4}, "zp": -3,
        "lo": -128, "hi": 127, "imm": -1, "loops": [{"extent": 4, "dst": 1, "a": 1}]}),
        "requantize banks=2 a_source=acc b_source=par destination=out dst=1 a=0 b=4 imm=-1 zp=-3 "
        "lo=-128 hi=127 [4x dst+1 a+1]"),
}


@pytest.mark.parametrize(("instruction", "text"), TEXTS.values(), ids=TEXTS)
def test_text(instruction: Instruction, text: str) -> None:
    assert disassemble(instruction) == text
    decoded = Instruction.decode(MACHINE, instruction.encode(MACHINE))
    assert disassemble(decoded) == text


def test_text_of_packed_weights() -> None:
    for code, text in enumerate(("", " bits=4", " bits=2", " bits=3")):
        load = Instruction("load", "load", {"buffer": 1, "bits": code})
        decoded = Instruction.decode(PACKED, load.encode(PACKED))
        assert disassemble(decoded) == disassemble(load) == (
            f"load buffer=wgt base=program{text} dram=0 address=0 run=1")
    with pytest.raises(isa.InstructionError,
                       match=r"^Field must be one of the word's, not 'bits'$"):
        Instruction("load", "load", {"bits": 1}).encode(MACHINE)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", ["load", "gemm", "requantize"])
@given(data=st.data())
def test_different_words_have_different_texts(name: str, data) -> None:
    """Nothing but loops of extent 1 and the opcode is left out of the text."""
    unit = MACHINE.units[MACHINE.opcodes[name]]
    layout = isa.FORMATS[unit]
    one, other = (Instruction(name, unit, data.draw(word_fields(layout))) for _ in range(2))
    mixed = replace(one, fields={**one.fields, "loops": other.fields["loops"]})
    assert (disassemble(mixed) == disassemble(one)) == (
        _counting(mixed) == _counting(one))


def _counting(instruction: Instruction) -> list[dict]:
    return [loop for loop in instruction.fields["loops"] if loop["extent"] > 1
            or loop.get("before") or loop.get("after")]
