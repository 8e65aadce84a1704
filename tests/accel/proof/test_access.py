"""Address sets against enumeration, tokens against the proof, refusals of the proof."""

import itertools
import re
from dataclasses import replace

import numpy as np
import pytest

from accel.machine import isa
from accel.machine.config import preset
from accel.machine.machine import Machine
from accel.machine.program import (Instruction, AccelProgram, ProgramError, TensorSlot, disassemble,
                                   finish)
from accel.machine.origins import Origin
from accel.machine.words import decode_words
from accel.proof.access import Fault, Walk, event, require_ranges, touches
from accel.proof.legal import IllegalProgram, prove, with_tokens
from tests.support.machines import PACKED

MACHINE = Machine(preset("tiny-1x4x4"))
X = TensorSlot("x", "io", 0, (64,), "uint8")


def test_decode_words_is_decode(rng):
    words = rng.integers(0, 256, (300, 64), np.uint8)
    words[:, 0] = rng.integers(0, 20, 300)
    for row, fast in zip(words, decode_words(MACHINE, words)):
        slow = Instruction.decode(MACHINE, int.from_bytes(row.tobytes(), "little"))
        fields = {k: v for k, v in slow.fields.items() if k not in ("reserved", "rest")}
        assert (fast.name, fast.unit, fast.fields) == (slow.name, slow.unit, fields)


@pytest.mark.parametrize("seed", range(60))
def test_runs_are_the_enumerated_set(seed):
    rng = np.random.default_rng(seed)
    count = int(rng.integers(1, 5))
    walk = Walk(int(rng.integers(0, 200)), tuple(rng.integers(1, 5, count).tolist()),
                tuple(rng.integers(-6, 40, count).tolist()), 256)
    scale = int(rng.choice([1, 1, 4]))
    width = scale if scale > 1 else int(rng.integers(1, 9))
    starts, length = walk.runs(scale, width)
    found = (starts[:, None] + np.arange(length)).reshape(-1)
    expected = {(walk.base + sum(i * s for i, s in zip(index, walk.strides))) % 256 * scale + k
                for index in itertools.product(*map(range, walk.extents)) for k in range(width)}
    assert len(found) == len(set(found.tolist()))
    assert set(found.tolist()) == expected
    assert walk.bounds == (walk.addresses().min(), walk.addresses().max())
    if walk.unique:
        assert len(np.unique(walk.addresses())) == walk.count


def test_contiguous_set_is_one_interval():
    walk = Walk(10, (3, 4, 5), (20, 5, 1), 1 << 16)
    starts, length = walk.runs(16, 16)
    assert (starts.tolist(), length) == ([160], 960)


def sets(instruction, machine=MACHINE):
    """(memory, write) to the set of addresses."""
    result = {}
    for access in event(machine, instruction).accesses:
        addresses = (range(*access.addresses) if isinstance(access.addresses, tuple)
                     else access.addresses.tolist())
        result.setdefault((access.memory, access.write), set()).update(addresses)
    return result


def test_load_reads_what_is_not_padding():
    load = Instruction("load", "load", {
        "buffer": 0, "base": 3, "dram": 8, "address": 5, "run": 3,
        "loops": [{"extent": 4, "dram": 10, "buffer": 3, "before": 1, "after": 1}]})
    assert sets(load) == {("io", False): {18, 19, 20, 28, 29, 30},
                          ("inp", True): set(range(5, 17))}


def test_load_unpacks():
    load = Instruction("load", "load", {
        "buffer": 1, "base": 3, "dram": 8, "address": 5, "run": 3, "bits": 1,
        "loops": [{"extent": 2, "dram": 10, "buffer": 30}]})
    read, written = {8, 9, 10, 18, 19, 20}, {*range(10, 16), *range(70, 76)}
    assert sets(load, PACKED) == {("io", False): read, ("wgt", True): written}


@pytest.mark.parametrize("fields, sentence", [
    ({"buffer": 1, "bits": 3}, "bits of load to wgt must be one of 8, 4, 2, not 3"),
    ({"buffer": 0, "bits": 1}, "bits of load to inp must be one of 8, not 4"),
    ({"buffer": 1, "bits": 2, "address": 1023, "run": 2},
     "dst reaches byte 4099 of wgt, which has 4096")])
def test_what_no_load_unpacks(fields, sentence):
    load = Instruction("load", "load", fields)
    with pytest.raises(Fault) as fault:
        require_ranges(PACKED, load, touches(PACKED, load))
    assert str(fault.value) == sentence


def test_load_that_is_all_padding_reads_nothing():
    load = Instruction("load", "load", {
        "buffer": 0, "base": 3, "loops": [{"extent": 2, "buffer": 1, "before": 1, "after": 1}]})
    assert sets(load) == {("inp", True): {0, 1}}


def test_gemm_reads_acc_unless_it_resets():
    fields = {"banks": 1, "loops": [{"extent": 2, "dst": 1, "a": 2}, {"extent": 3, "b": 1}]}
    gemm = Instruction("gemm", "gemm", fields)
    reads = {("inp", False): {0, 1, 2, 3, 8, 9, 10, 11}, ("wgt", False): set(range(48)),
             ("acc", True): {0, 1}}
    assert sets(gemm) == reads | {("acc", False): {0, 1}}
    assert sets(Instruction("gemm", "gemm", {**fields, "reset": 1})) == reads


def test_vector_does_not_read_what_it_wrote_itself():
    copy = Instruction("copy", "vector", {"banks": 1, "base": {"dst": 5, "b": 4}, "b_source": 0,
                                          "loops": [{"extent": 4, "dst": 1, "b": 1}]})
    assert sets(copy) == {("acc", False): {4}, ("acc", True): {5, 6, 7, 8}}


def test_requantize_reads_its_record():
    one = Instruction("requantize", "vector", {"banks": 1, "base": {"a": 3, "b": 2},
                                               "destination": 1})
    assert {touch.operand: touch.memory for touch in touches(MACHINE, one)} == {
        "a": "acc", "bias": "par", "mult": "par", "shift": "par", "dst": "out"}
    assert sets(one) == {("acc", False): {3}, ("par", False): set(range(64, 96)),
                         ("out", True): {0, 1, 2, 3}}


def chain():
    return [
        Instruction("load", "load", {"buffer": 0, "base": 3, "run": 16},
                    Origin.named("layer 1, x")),
        Instruction("load", "load", {"buffer": 1, "base": 3, "run": 16, "dram": 16},
                    Origin.named("layer 1, w")),
        Instruction("gemm", "gemm", {"banks": 1, "reset": 1, "loops": [
            {"extent": 4, "dst": 1, "a": 1}]}, Origin.named("layer 1, product")),
        Instruction("copy", "vector", {"banks": 1, "b_source": 0, "destination": 1, "loops": [
            {"extent": 4, "dst": 1, "b": 1}]}, Origin.named("layer 1, out")),
        Instruction("store", "store", {"buffer": 5, "base": 3, "dram": 64, "run": 16},
                    Origin.named("layer 1, y")),
        finish()]


def program(stream, **parts):
    return AccelProgram.assemble(MACHINE, stream, **({"io_bytes": 128, "inputs": (X,)} | parts))


def changed(stream, index, **fields):
    stream = list(stream)
    stream[index] = replace(stream[index], fields={**stream[index].fields, **fields})
    return stream


def refusal(stream, **parts):
    with pytest.raises(IllegalProgram) as caught:
        prove(MACHINE, program(stream, **parts))
    return str(caught.value)


def titles(stream, **parts):
    """The first line of every finding; tests/accel/proof/test_findings.py looks at the others."""
    return [line for line in refusal(stream, **parts).splitlines() if line[0].isdigit()]


def name(stream, index, **parts):
    """How a message calls an instruction."""
    one = program(stream, **parts).instructions(MACHINE)[index]
    return f"Instruction {index}{f' ({one.label})' if one.label else ''} `{disassemble(one)}`"


def test_tokens_order_the_chain():
    stream = with_tokens(MACHINE, chain())
    assert [(one.waits, one.signals) for one in stream] == [
        ((), ()), ((), ("gemm",)), (("load",), ("vector",)), (("gemm",), ("store",)),
        (("vector",), ()), ((), ())]
    prove(MACHINE, program(stream))


def test_a_name_is_index_label_and_disassembly():
    assert re.fullmatch(r"Instruction 1 \(layer 1, w\) `load .*buffer=wgt.*`", name(chain(), 1))


def test_missing_token_names_both_instructions():
    stream = changed(changed(with_tokens(MACHINE, chain()), 1, signals=0), 2, waits=0)
    assert titles(stream) == ["1. load 0 writes and gemm 2 reads inp in no fixed order",
                              "2. load 1 writes and gemm 2 reads wgt in no fixed order"]


def test_wait_without_signal():
    stream = changed(with_tokens(MACHINE, chain()), 1, signals=0)
    assert titles(stream) == [
        "1. gemm 2 waits for a token load to gemm, of which there is none",
        "2. load 0 writes and gemm 2 reads inp in no fixed order",
        "3. load 1 writes and gemm 2 reads wgt in no fixed order"]


def test_signal_without_wait():
    stream = changed(with_tokens(MACHINE, chain()), 4, signals=isa.unit_mask(["load"]))
    assert titles(stream) == ["1. store 4 signals store to load, for which nothing waits"]


def test_counter_that_overflows():
    stream = [Instruction("load", "load", {"buffer": 0, "base": 3, "signals": 2})] * 256
    stream = [*stream, finish()]
    assert titles(stream) == ["1. load 255 signals load to gemm, whose counter is full",
                              "2. load 0 signals load to gemm, for which nothing waits"]


def test_reading_what_nothing_wrote():
    stream = with_tokens(MACHINE, chain()[1:])
    assert titles(stream) == ["1. gemm 1 reads inp, which nothing wrote"]
    stream = with_tokens(MACHINE, chain())
    assert titles(stream, inputs=()) == ["1. load 0 reads io, which nothing wrote",
                                         "2. load 1 reads io, which nothing wrote"]


def test_address_outside_its_buffer():
    stream = changed(chain(), 2, loops=[{"extent": 600, "a": 1}])
    assert refusal(stream) == f"{name(stream, 2)}: inp reaches entry 599 of inp, which has 512"
    with pytest.raises(IllegalProgram, match="inp reaches entry 599 of inp, which has 512$"):
        with_tokens(MACHINE, stream)


def test_byte_outside_its_buffer():
    stream = changed(chain(), 0, address=2040)
    assert refusal(stream) == f"{name(stream, 0)}: dst reaches byte 2055 of inp, which has 2048"


def test_bank_that_is_not_named():
    stream = changed(chain(), 2, banks=2)
    assert refusal(stream) == (f"{name(stream, 2)}: dst touches bank 0 of acc, which banks does "
                               f"not name")


def test_buffer_that_load_cannot_reach():
    stream = changed(chain(), 0, buffer=5)
    assert refusal(stream) == (f"{name(stream, 0)}: buffer of load must be one of inp, wgt, res, "
                               f"par, tab, not out")


def test_selector_that_the_operation_does_not_take():
    stream = [Instruction("reduce_add", "vector", {"banks": 1, "a_source": 0}), finish()]
    assert refusal(stream) == f"{name(stream, 0)}: a of reduce_add must be in res, not acc"


def test_unknown_opcode():
    words = np.zeros((2, 64), np.uint8)
    words[0, 0], words[1, 0] = 200, 1
    with pytest.raises(IllegalProgram, match="^Instruction 0 `illegal.*`: opcode 200 is not an "
                                             "instruction of the machine$"):
        prove(MACHINE, AccelProgram(MACHINE.hash, words))


def test_constants_are_whole_from_the_start():
    """A read of them needs no order, but must stay within them."""
    stream = changed(chain(), 0, base=1)
    assert sets(stream[0]) == {("inp", True): set(range(16))}
    prove(MACHINE, program(with_tokens(MACHINE, stream), weights=np.zeros(16, np.uint8)))
    assert refusal(stream, weights=np.zeros(15, np.uint8)) == (
        f"{name(stream, 0)}: src reaches byte 15 of weights, which has 15")


def test_segment_that_is_too_small():
    assert refusal(chain(), io_bytes=70) == (f"{name(chain(), 4)}: dst reaches byte 79 of io, "
                                             f"which has 70")


def test_store_to_constants():
    stream = changed(chain(), 4, base=1)
    assert refusal(stream, weights=np.zeros(100, np.uint8)) == (
        f"{name(stream, 4)}: dst must be in activations or io, not weights")


def test_finish_must_be_last():
    assert refusal(chain()[:-1]) == "Program must have one finish, at its end 4, not at []"
    assert refusal([finish(), *chain()]) == ("Program must have one finish, at its end 6, "
                                             "not at [0, 6]")
    waiting = [finish(waits=1)]
    assert refusal(waiting) == (f"{name(waiting, 0)} must have no tokens: finish waits until all "
                                f"units are idle")


def test_program_of_another_machine():
    with pytest.raises(ProgramError, match="^Program was compiled for machine 000000000000, not "
                                           f"{MACHINE.hash[:12]} "):
        prove(MACHINE, AccelProgram("0" * 64, np.zeros((0, 64), np.uint8)))
