"""Machines: opcodes, forms, refusals."""

import pytest

from accel.machine.config import preset
from accel.machine.intrinsics import SHIPPED, vector_op
from accel.machine.machine import FINISH, Machine

TINY = preset("tiny-1x4x4")
MACHINE = Machine(TINY)


def test_opcodes_follow_the_order_of_declaration() -> None:
    extra = vector_op("extra", lambda a: a)
    machine = Machine(TINY, (*SHIPPED, extra))
    names = ["finish", *(declaration.name for declaration in SHIPPED), "extra"]
    assert list(machine.opcodes.items()) == [(name, 1 + at) for at, name in enumerate(names)]
    assert machine.names == {code: name for name, code in machine.opcodes.items()}
    assert 0 not in machine.names and machine.names[FINISH] == "finish"


def test_the_shipped_opcodes_stay() -> None:
    """Programs and recordings outlive a version: the list is append-only."""
    assert list(MACHINE.opcodes) == [
        "finish", "load", "store", "gemm", "add", "sub", "max", "min", "mul", "shr", "clamp",
        "copy", "requantize", "add_scaled", "reduce_add", "reduce_max", "reduce_min",
        "lookup"]


def test_units() -> None:
    assert {MACHINE.names[code]: unit for code, unit in MACHINE.units.items()} == {
        "finish": "fetch", "load": "load", "store": "store", "gemm": "gemm",
        **{one.name: "vector" for one in MACHINE.of_unit("vector")}}
    assert [one.name for one in MACHINE.of_unit("gemm")] == ["gemm"]
    assert len(MACHINE.of_unit("vector")) == 14


def test_forms_share_name_and_unit() -> None:
    assert [len(MACHINE.forms[name]) for name in ("load", "store", "gemm")] == [3, 1, 1]
    for name, forms in MACHINE.forms.items():
        assert {(form.name, form.unit) for form in forms} == {(name, forms[0].unit)}
        assert MACHINE.intrinsic(name) is forms[0]


def test_a_name_is_declared_once() -> None:
    with pytest.raises(ValueError, match=r"^Instruction max must be declared once$"):
        Machine(TINY, (*SHIPPED, vector_op("max", lambda a: a)))


def test_opcodes_have_eight_bits() -> None:
    many = tuple(vector_op(f"v{i}", lambda a: a) for i in range(255))
    assert max(Machine(TINY, (*SHIPPED, *many)[:254]).names) == 255
    message = r"^Declarations must be at most 254 \(8-bit opcodes\), not 255$"
    with pytest.raises(ValueError, match=message):
        Machine(TINY, (*SHIPPED, *many)[:255])
