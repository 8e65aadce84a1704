"""Records of per-channel parameters of one's own: what reads them, and what is refused."""

from dataclasses import replace

import numpy as np
import pytest

import lockstep
from accel.machine.config import ConfigError, load
from accel.machine.intrinsics import SHIPPED, vector_op
from accel.machine.machine import Machine
from accel.machine.program import AccelProgram, Instruction, finish
from accel.machine.rules import DeclarationError
from accel.machine.status import Status
from accel.mapping.target import AccelTarget
from accel.sim.meaning import functional
from accel.sim.timed import cycle
from compiler import te
from compiler.schedule import Schedule
from compiler.tensorize import Operand
from tests.support.integer_graphs import Net, assert_right
from tests.support.machines import TINY, example

GAINS = te.record("gains", gain="int16", offset="int16", least="int8", kind="uint8", wide="uint16")
LINES = te.record("lines", slope="int32", start="int32")

GAINED = vector_op("gained", lambda a, b, gain, offset, least: te.maximum(
    (a * gain.astype("int32") >> 8) + offset.astype("int32"), least.astype("int32")) + b,
    record=GAINS)
KINDS = vector_op("kinds", lambda a, kind, wide, table: (
    table[(a + kind.astype("int32")) & 255] ^ wide.astype("int32")), record=GAINS, update="max")
LINE = vector_op("line", lambda a, slope, start: a * slope + start, record=LINES)
MACHINE = Machine(TINY.config, (*SHIPPED, LINE, GAINED, KINDS))


def test_shipped_machines_have_none() -> None:
    assert TINY.config.records == () and "records" not in TINY.config.geometry()
    assert MACHINE.config.records == ("lines", "gains")
    assert MACHINE.config.geometry() == TINY.config.geometry() | {"records": ["lines", "gains"]}
    difference = MACHINE.record.difference(TINY.record)
    assert difference.startswith("records is ['lines', 'gains'], not []")


def test_a_body_reads_its_fields_at_one_address() -> None:
    body = MACHINE.intrinsic("gained")
    assert [operand.storage for operand in body.operands[2:]] == [
        (("par", f"gains.{name}"),) for name in ("gain", "offset", "least")]
    assert "par" not in body.operand("b").scopes


def program():
    """``a * slope + start`` by hand: the records are a tensor of their type."""
    shape = (5, 2, 1, 4)
    a = te.placeholder(shape, "int8", "a")
    lines = te.placeholder((2, 4), LINES, "lines_of_channels")
    d = te.compute(shape, lambda y, c, n, o: (
        a[y, c, n, o].astype("int32") * lines[c, o].slope + lines[c, o].start).astype("int8"), "d")
    out = te.compute(shape, lambda y, c, n, o: d[y, c, n, o], "out")
    s = Schedule([out])
    s[d].set_scope("out")
    s[a].cache_read("res").tensorize(None, MACHINE.forms["load"][0])
    form = next(form for form in MACHINE.forms["load"] if form.dst.dtype == LINES)
    s[lines].cache_read("par").tensorize(None, form)
    s[d].tensorize("n", MACHINE.intrinsic("line"))
    s[out].tensorize(None, MACHINE.intrinsic("store"))
    return lockstep.assemble(MACHINE, s.program)


def test_records_are_loaded_by_hand(rng) -> None:
    made = program()
    lines = np.zeros((2, 4), te.numpy_dtype(LINES))
    lines["slope"], lines["start"] = rng.integers(-9, 9, (2, 2, 4))
    arrays = {"a": rng.integers(-9, 9, (5, 2, 1, 4)).astype(np.int8), "lines_of_channels": lines}
    wanted = arrays["a"] * lines["slope"][:, None] + lines["start"][:, None]
    for simulate in (functional.simulate, cycle.simulate):
        run = simulate(MACHINE, made, inputs=arrays)
        assert run.ok and (made.extract(run.memory, "out") == wanted.astype(np.int8)).all()


def test_networks_run_beside_them() -> None:
    net = Net(2)
    x = net.conv(net.input(1, 4, 5, 5), 8)
    assert_right(MACHINE, net.graph(net.add(x, net.rescale(x))), net.samples())


@pytest.mark.parametrize("slope", [5, np.arange(-4, 4, dtype=np.int32).reshape(8, 1, 1)])
def test_networks_fill_them(slope) -> None:
    """Numbers of the network, one or one a channel, become fields of the records."""
    net = Net(2)
    x, y = net.input(1, 8, 4, 4), net.input(1, 8, 4, 4, name="y")
    more = [] if isinstance(slope, int) else [net.constant(slope)]
    times = slope if isinstance(slope, int) else "int32(int8(x2))"
    node = net.add_node("qmap", x, y, *more, function=f"clamp((x0 + x1) * {times} + 3, -128, 127)")
    graph = net.graph(node)
    layer, = AccelTarget(MACHINE).compile(graph).layers
    assert "line" in layer.operator.by.values()
    (records,) = (array for role, array in layer.constants.items() if role.startswith("params"))
    np.testing.assert_array_equal(records["slope"].reshape(-1), np.broadcast_to(
        np.reshape(slope, -1), 8))
    assert (records["start"] == 3).all()
    assert_right(MACHINE, graph, net.samples())


def test_a_record_beyond_par_is_an_address_error() -> None:
    for entry, status in ((MACHINE.config.buffers["par"].depth - 1, Status.DONE),
                          (MACHINE.config.buffers["par"].depth, Status.ADDRESS)):
        one = Instruction("line", "vector", {"a_source": 1, "destination": 1,
                                             "base": {"b": entry}})
        program = AccelProgram.assemble(MACHINE, [one, finish()])
        for simulate in (functional.simulate, cycle.simulate):
            run = simulate(MACHINE, program)
            assert (run.status, run.index) == (status, int(status == Status.DONE))


def test_compiled_networks_are_saved(tmp_path) -> None:
    net = Net(2)
    graph = net.graph(net.conv(net.input(1, 4, 5, 5), 8))
    module = lockstep.compile(graph, "accel", machine=MACHINE)
    module.save(tmp_path / "own.lockstep")
    found = lockstep.load(tmp_path / "own.lockstep", machine=MACHINE)(net.samples())
    assert module.accelerated and found.keys() == module(net.samples()).keys()
    assert hash(MACHINE.config) == hash(replace(MACHINE.config, records=["lines", "gains"]))


def test_where_acc_holds_float32_a_field_may_be_one():
    """A float of 16 bits is refused, and so is any on machines of integers."""
    machine = example("fp8")
    affine = machine.intrinsic("affine")
    assert [operand.dtype for operand in affine.operands] == ["float32"] * 3
    half = te.record("half_record", scale="float16", more="int32")
    wrong = vector_op("own", lambda a, scale: a + scale.astype("float32"),
                      stored="float8_e4m3fn", record=half)
    with pytest.raises(DeclarationError, match=(
            r"^Field scale of record half_record of own must be float32, or an integer of at most "
            r"32 bits, not float16$")):
        Machine(machine.config, (*machine.declarations, wrong))


SHORT = te.record("short_record", one="int16", two="int8")
REAL = te.record("real_record", real="float32", more="int32")
NAMED = te.record("named_record", bias="int32", more="int32")
TWICE = te.record("twice_record", slope="int16", rest="int32", more="int16")

REFUSED = {
    "fewer bytes": (vector_op("own", lambda a, one: a + one.astype("int32"), record=SHORT),
                    "Record short_record of own must take 8 bytes, padded to a power of two, "
                    "not 4"),
    "a float": (vector_op("own", lambda a, more: a + more, record=REAL),
                "Field real of record real_record of own must be an integer of at most 32 bits, "
                "not float32"),
    "a name that is taken": (vector_op("own", lambda a, more: a + more, record=NAMED),
                             "Field bias of record named_record of own must have another name: "
                             "operands or immediates are called so"),
    "two records with one name": (
        vector_op("own", lambda a, rest: a + rest, record=TWICE),
        "Field slope of record twice_record must have another name: lines has one that is called "
        "so"),
    "another type than the record's": (
        replace(LINE, name="own", build=lambda config: (replace(
            LINE.build(config)[0], name="own", operands=(
                *LINE.build(config)[0].operands[:2],
                Operand("start", (4,), "int32", (("par", "lines.slope"),)))),)),
        "Operand start of own must be one of a, b, table, bias, mult, shift, slope: vector reads "
        "no other"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_no_element_of_par_is_refused(case) -> None:
    declaration, message = REFUSED[case]
    with pytest.raises(DeclarationError) as refused:
        Machine(TINY.config, (*SHIPPED, LINE, declaration))
    assert str(refused.value) == message


@pytest.mark.parametrize("declare, message", [
    (lambda: vector_op("own", lambda a: a, record="never_declared"),
     "Record of own must be one that te.record declared, not 'never_declared'"),
    (lambda: vector_op("own", lambda a, bias: a + bias, record=LINES),
     "Parameter of vector operation own must be a, b, table, one of slope, start, imm, ma, mb, s, "
     "zp, lo, hi, not 'bias'"),
])
def test_fields_are_those_of_the_record(declare, message) -> None:
    with pytest.raises(ValueError, match=f"^{message}$"):
        declare()


def test_a_file_holds_no_records(tmp_path) -> None:
    file = tmp_path / "own.toml"
    file.write_text(TINY.config.to_toml() + 'records = ["lines"]\n')
    with pytest.raises(ConfigError, match=r"records must be \[\], not \['lines'\]: they follow "
                                          r"from declared instructions$"):
        load(file)
