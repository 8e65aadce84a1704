"""What the proof says of a compiled program with a fault of each kind."""

from dataclasses import replace
from unittest.mock import patch

import pytest

from accel.machine import isa
from accel.machine.config import preset
from accel.machine.machine import Machine
from accel.machine.program import AccelProgram, Instruction, finish
from accel.machine.origins import Origins
from accel.mapping.schedules import Tiles
from accel.mapping.target import AccelTarget
from accel.proof.findings import LIMIT
from accel.proof.legal import IllegalProgram, prove
from tests.support.networks import convolution_graph

MACHINE = Machine(preset("tiny-1x4x4"))


@pytest.fixture(scope="module")
def stream():
    """Two loads and a gemm for each of two steps of the depth, then vector and store."""
    return compiled().instructions(MACHINE)


def compiled() -> AccelProgram:
    """Compiles with given tiles, so that the texts do not depend on which are the cheapest."""
    with patch("accel.mapping.plans.choices.Choices.cheapest", lambda *_: (Tiles(9, 3, 1, 1), 2)):
        return AccelTarget(MACHINE).compile(convolution_graph(8, 8, 9, seed=0)).program


def changed(stream, index, **fields):
    stream = list(stream)
    stream[index] = replace(stream[index], fields={**stream[index].fields, **fields})
    return stream


def without(stream, index, kind, unit):
    """`kind` is ``waits`` or ``signals``."""
    left = isa.units_of(stream[index].fields[kind])
    assert unit in left
    return changed(stream, index, **{kind: isa.unit_mask(set(left) - {unit})})


def refusal(stream) -> IllegalProgram:
    made = AccelProgram.assemble(MACHINE, stream)
    with pytest.raises(IllegalProgram) as caught:
        prove(MACHINE, replace(compiled(), words=made.words, origins=made.origins))
    return caught.value


def blocks(stream) -> list[list[str]]:
    """The findings of a text, without its first line."""
    result: list[list[str]] = []
    for line in str(refusal(stream)).splitlines()[1:]:
        if not line.startswith(" "):
            result.append([])
        result[-1].append(line)
    return result


def rows(block: list[str]) -> list[str]:
    """The rows behind those of the instructions."""
    heads = ("both", "needed", "nearest", "token", "unwritten", "written")
    return [" ".join(line.split()) for line in block if line.split()[0] in heads]


def test_the_stream_is_what_the_tests_say(stream):
    assert [one.unit for one in stream[:10]] == [
        "load", "load", "gemm", "load", "load", "gemm", "load", "vector", "store", "load"]
    assert stream[2].signals == ("load",) and stream[9].waits == ("gemm",)


def test_a_lost_token_names_both_instructions_their_loops_and_the_order(stream):
    faulty = without(without(stream, 2, "signals", "load"), 9, "waits", "gemm")
    assert "\n".join(blocks(faulty)[0]) == """\
1. gemm 2 reads and load 9 writes wgt in no fixed order
   gemm 2     gemm wait=load banks=1 reset=1 dst=0 a=0 b=0 [9x dst+3 a+5] [3x dst+1 a+1]
              [3x a+5 b+3] [3x a+1 b+1]
     from     conv: output_c_o 0 of 2, output_x_o_o 0 of 2, output_x_o_i 0 of 2 (virtual_thread),
              rc_o_i 0 of 2 (virtual_thread); runs acc_y, acc_x, kh, kw itself
     tensors  conv_acc in acc, conv_input in inp, conv_w_wgt in wgt
   load 9     load buffer=wgt base=weights dram=0 address=0 run=16 [9x dram+32 buffer+16]
     from     conv: output_c_o 0 of 2, output_x_o_o 0 of 2, output_x_o_i 1 of 2 (virtual_thread),
              rc_o_i 0 of 2 (virtual_thread); runs w_wgt_1, w_wgt_2, w_wgt_4, w_wgt_5 itself
     tensors  conv_w_wgt in wgt, conv_w in weights
   both       wgt entries 0..8 (bytes 0..143): conv_w_wgt
   needed     a token gemm to load, signalled by 2 or later, taken by 9 or before
   nearest    gemm 5 signals token 0, which load 12 takes: too late"""


def test_a_token_that_comes_too_early_is_named(stream):
    """load 9 takes the token of gemm 2, load 12 that of gemm 5; now both are of gemm 2's age."""
    faulty = without(without(stream, 5, "signals", "load"), 12, "waits", "gemm")
    assert rows(blocks(faulty)[0]) == [
        "both wgt entries 9..17 (bytes 144..287): conv_w_wgt",
        "needed a token gemm to load, signalled by 5 or later, taken by 12 or before",
        "nearest gemm 11 signals token 1, which load 18 takes: too late",
        "nearest load 9 takes token 0, which gemm 2 signals: too early"]


def test_a_token_of_the_earlier_instruction_itself_may_be_taken_too_late(stream):
    faulty = without(stream, 2, "waits", "load")
    assert rows(blocks(faulty)[0]) == [
        "both inp entries 0..54 (bytes 0..219): conv_input",
        "needed a token load to gemm, signalled by 1 or later, taken by 2 or before",
        "nearest load 1 signals token 0, which gemm 5 takes: too late"]


def test_a_pair_without_tokens_is_said_to_have_none(stream):
    bare = [replace(one, fields={**one.fields, "waits": 0, "signals": 0}) for one in stream]
    found = blocks(bare)
    assert found[0][0] == "1. load 1 writes and gemm 2 reads inp in no fixed order"
    assert rows(found[0])[-1] == "nearest the program has no token of this pair"


def test_a_region_of_memory_has_the_networks_name(stream):
    x = Instruction("load", "load", {"buffer": 2, "base": 3, "dram": 756, "run": 4})
    found, = blocks([*stream[:-1], x, finish()])
    assert found[0] == "1. store 53 writes and load 54 reads io in no fixed order"
    assert rows(found)[0] == "both io bytes 756..759: y"


def test_acc_has_entries_and_ranges_are_cut_short(stream):
    faulty = without(without(stream, 5, "signals", "vector"), 7, "waits", "gemm")
    assert rows(blocks(faulty)[0])[0] == "both acc entries 0..26: conv_acc"
    parts = [{"extent": 5, "dst": 2}, {"extent": 1}]
    sparse = changed(faulty, 7, loops=[{}] * 3 + parts)
    sparse = changed(sparse, 7, loops=[{}] * 4 + [{"extent": 5, "dst": 1, "a": 2}])
    assert rows(blocks(sparse)[0])[0] == (
        "both acc entries 0, 2, 4 and 2 more ranges, 5 in all: conv_acc")


def test_a_wait_on_an_empty_counter(stream):
    last = max(k for k, one in enumerate(stream) if "gemm" in one.signals and one.unit == "load")
    wait = min(k for k in range(last, len(stream)) if "load" in stream[k].waits
               and stream[k].unit == "gemm")
    count = sum("gemm" in one.signals for one in stream if one.unit == "load")
    found = blocks(without(stream, last, "signals", "gemm"))
    assert found[0][0] == f"1. gemm {wait} waits for a token load to gemm, of which there is none"
    assert rows(found[0]) == [
        f"token number {count - 1} of load to gemm is the one it takes; before it {count - 1} are "
        f"signalled", f"nearest nothing signals token {count - 1}"]


def test_a_signal_that_comes_after_its_wait(stream):
    faulty = without(stream, 1, "signals", "gemm")
    faulty = changed(faulty, 3, signals=isa.unit_mask(["gemm"]))
    assert rows(blocks(faulty)[0]) == [
        "token number 0 of load to gemm is the one it takes; before it 0 are signalled",
        "nearest load 3 signals token 0: too late"]


def test_tokens_left(stream):
    last = max(k for k, one in enumerate(stream) if "load" in one.waits and one.unit == "gemm")
    count = sum("load" in one.waits for one in stream if one.unit == "gemm")
    found = blocks(without(stream, last, "waits", "load"))
    title = next(block for block in found if "nothing waits" in block[0])
    assert rows(title)[0] == (f"token {count} are signalled and {count - 1} taken: nothing takes "
                              f"token {count - 1}")


def test_a_full_counter(stream):
    more = [Instruction("load", "load", {"buffer": 2, "base": 3, "signals": 8})] * 256
    taken = [Instruction("store", "store", {"buffer": 5, "base": 3, "dram": 704, "waits": 1})] * 256
    found = blocks([*stream[:-1], *more, *taken, finish()])
    full = next(block for block in found if "counter is full" in block[0])
    first = len(stream) - 1
    assert full[0].endswith(f"load {first + 255} signals load to store, whose counter is full")
    assert rows(full)[0].startswith("token number 255 of load to store is the one it gives; before")
    assert rows(full)[1] == f"nearest store {first + 256} is the next to take one: too late"


def test_reading_what_is_written_too_late(stream):
    found = blocks(changed(stream, 1, buffer=isa.BUFFERS.index("res")))
    assert found[0][0] == "1. gemm 2 reads inp, which nothing wrote"
    assert rows(found[0]) == ["unwritten inp entries 0..54 (bytes 0..219): conv_input",
                              "written by load 10, too late"]


def test_reading_what_nothing_writes(stream):
    x = Instruction("load", "load", {"buffer": 0, "base": 3, "dram": 650, "run": 8})
    found = blocks([x, *stream])
    assert rows(found[0]) == [
        "unwritten io bytes 650..657",
        "written by nothing in this program, and not an input or a constant of it"]


def test_a_list_of_findings_is_cut_short(stream):
    bare = [replace(one, fields={**one.fields, "waits": 0, "signals": 0}) for one in stream]
    error = refusal(bare)
    lines = str(error).splitlines()
    count = len(error.violations)
    assert lines[0] == (f"Program must be legal under every timing, but has {count} findings "
                        f"({count} unordered)")
    assert lines[-1] == f"and {count - 3} more"
    assert sum(line[0].isdigit() for line in lines) == 3
    assert all(len(line) <= 100 for line in lines)


def test_a_proof_is_given_up_after_many_findings():
    waiting = [Instruction("load", "load", {"buffer": 0, "base": 3, "waits": 2})] * (LIMIT + 9)
    error = refusal([*waiting, finish()])
    assert len(error.violations) == LIMIT
    assert str(error).startswith(
        f"Program must be legal under every timing, but has {LIMIT} findings or more")


def test_a_program_that_nobody_knows_the_origin_of(stream):
    whole = compiled()
    words = whole.words.copy()
    words[2, 2] = 0
    with pytest.raises(IllegalProgram) as caught:
        prove(MACHINE, replace(whole, words=words, origins=Origins()))
    assert "from" not in str(caught.value) and "tensors" not in str(caught.value)
