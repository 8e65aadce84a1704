"""Declaring vector operations: what the record says, and what is refused."""

import pytest

from accel.machine.config import preset
from accel.machine.intrinsics import IMMEDIATES, Declaration, operand_field, vector_op
from compiler import te

TINY = preset("tiny-1x4x4")


def build(declaration: Declaration):
    (intrinsic,) = declaration.build(TINY)
    return intrinsic


def storage(intrinsic) -> dict[str, tuple[str, ...]]:
    return {one.name: one.scopes for one in (intrinsic.dst, *intrinsic.operands)}


def test_parameters_become_operands_and_immediates() -> None:
    one = build(vector_op("one", lambda a, b, s, zp: a + (b >> s.astype("int32")) + zp.astype(
        "int32")))
    assert (one.name, one.unit, one.update, one.loops) == ("one", "vector", "assign", 5)
    assert storage(one) == {"dst": ("acc", "out"), "a": ("acc", "res"),
                            "b": ("acc", "res", "par", "imm")}
    assert one.operand("b").stored_as("par") == "param.bias"
    assert one.operand("a").stored_as("res") == one.dst.stored_as("out") == "int8"
    assert [operand.shape for operand in one.operands] == [(1, 4), (1, 4)]
    assert one.immediates == (IMMEDIATES["s"], IMMEDIATES["zp"])


def test_parameters_of_channels_are_fields_of_a_record() -> None:
    one = build(vector_op("one", lambda a, bias, shift: a + bias + shift.astype("int32")))
    assert storage(one) == {"dst": ("acc", "out"), "a": ("acc", "res"), "bias": ("par",),
                            "shift": ("par",)}
    assert one.operand("shift").stored_as("par") == "param.shift"
    assert one.operand("shift").shape == (4,)


def test_scopes_can_be_narrowed() -> None:
    one = build(vector_op("one", lambda a, b: a + b, a=("res",), b=("acc", "imm")))
    assert storage(one) == {"dst": ("acc", "out"), "a": ("res",), "b": ("acc", "imm")}


def test_an_accumulation_takes_nothing_from_acc_and_writes_acc() -> None:
    one = build(vector_op("one", lambda a, b: a * b, update="sum"))
    assert storage(one) == {"dst": ("acc",), "a": ("res",), "b": ("res", "par", "imm")}


def test_a_reduction_over_lanes_is_outermost_and_reads_at_its_index() -> None:
    one = build(vector_op("one", lambda a, bias: a - bias, lanes="max", update="max"))
    (lane, extent), = one.reduce_axes
    assert (one.value.op, extent, one.update) == ("max", 4, "max")
    assert [read.indices[-1] for read in te.walk(one.value) if isinstance(read, te.Read)] == [
        lane, lane]


def test_another_reduction_over_lanes_is_refused() -> None:
    with pytest.raises(ValueError) as refusal:                                 # noqa: PT011
        vector_op("one", lambda a: a, lanes="mean")
    assert str(refusal.value) == ("Reduction over lanes of one must be one of sum, max, min, not "
                                  "'mean'")


def test_an_unknown_parameter_is_refused() -> None:
    with pytest.raises(ValueError) as refusal:                                 # noqa: PT011
        vector_op("one", lambda a, c: a + c)
    assert str(refusal.value) == (
        "Parameter of vector operation one must be a, b, table, one of bias, mult, shift, imm, "
        "ma, mb, s, zp, lo, hi, not 'c'")


def test_two_of_b_parameters_and_table_have_fields_of_their_own() -> None:
    def fields(value) -> dict[str, str]:
        one = build(vector_op("one", value))
        return {operand.name: operand_field(one, operand.name) for operand in one.operands}

    assert fields(lambda a, b, table: table[(a - b) & 255]) == {"a": "a", "b": "b", "table": "c"}
    assert fields(lambda a, b, bias: a + b + bias) == {"a": "a", "b": "b", "bias": "c"}
    assert fields(lambda table, mult, a: table[a & 255] * mult.astype("int32")) == {
        "a": "a", "mult": "b", "table": "c"}
    assert fields(lambda table, imm: table[imm & 255]) == {"table": "b"}


def test_b_beside_parameters_is_not_in_par() -> None:
    assert storage(build(vector_op("one", lambda b, bias: b + bias)))["b"] == ("acc", "res", "imm")
    with pytest.raises(ValueError) as refusal:                                 # noqa: PT011
        vector_op("one", lambda b, bias: b + bias, b=("par",))
    assert str(refusal.value) == (
        "Operand b of one must have a scope to live in beside parameters: par gives one record a "
        "cycle")


def test_b_parameters_and_a_table_are_refused() -> None:
    with pytest.raises(ValueError) as refusal:                                 # noqa: PT011
        vector_op("one", lambda b, bias, table: table[b & 255] + bias)
    assert str(refusal.value) == (
        "Vector operation one must take at most two of b, per-channel parameters, table: the word "
        "has an address for a and two more")


def test_a_table_is_in_tab() -> None:
    one = build(vector_op("one", lambda a, table: table[a & 255] - table[a & 15]))
    assert storage(one) == {"dst": ("acc", "out"), "a": ("acc", "res"), "table": ("tab",)}
    assert (one.operand("table").shape, one.operand("table").dtype) == ((256,), "int32")
    assert one.operand("table").stored_as("tab") == "int8"


def test_an_unknown_scope_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^Scopes of a of one must be a tuple of some of "
                                         r"acc, res, not \('res', 'imm'\)$"):
        vector_op("one", lambda a: a, a=("res", "imm"))
    with pytest.raises(ValueError, match=r"^Scopes of b of one must be a tuple of some of "
                                         r"acc, res, par, imm, not \('inp',\)$"):
        vector_op("one", lambda a, b: a + b, b=("inp",))


def test_an_operand_that_can_live_nowhere_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^Operand a of one must have a scope to live in "
                                         r"beside acc: update sum takes its read port$"):
        build(vector_op("one", lambda a: a, update="sum", a=("acc",)))


def test_an_unknown_update_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^Update of one must be one of assign, sum, max, min, "
                                         r"not 'mean'$"):
        build(vector_op("one", lambda a: a, update="mean"))


def test_a_result_of_another_type_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^Result of vector operation one must be int32, "
                                         r"not int8$"):
        build(vector_op("one", lambda a: te.cast(a, "int8")))


def test_floats_are_computed_in_float32_and_rounded_where_they_say_so() -> None:
    plain = build(vector_op("one", lambda a, b: a + b, stored="bfloat16"))
    rounded = build(vector_op("one", lambda a: a.astype("bfloat16"), stored="bfloat16"))
    assert storage(plain) == {"dst": ("acc",), "a": ("acc", "res"), "b": ("acc", "res")}
    assert storage(rounded) == {"dst": ("acc", "out"), "a": ("acc", "res")}
    assert (plain.dst.dtype, plain.operand("a").dtype, rounded.dst.dtype) == ("float32",) * 3
    assert plain.operand("a").stored_as("res") == rounded.dst.stored_as("out") == "bfloat16"


def test_what_floats_cannot_be_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^Result of vector operation one must be float32 or "
                                         r"bfloat16, not int32$"):
        build(vector_op("one", lambda a: a.astype("int32"), stored="bfloat16"))
    with pytest.raises(ValueError, match=r"^Scopes of b of one must be a tuple of some of "
                                         r"acc, res, not \('imm',\)$"):
        vector_op("one", lambda a, b: a + b, b=("imm",), stored="bfloat16")
