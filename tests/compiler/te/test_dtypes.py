"""Element types and records."""

import re

import numpy as np
import pytest

from compiler import te


@pytest.mark.parametrize("dtype, bits, signed, integer, floating", [
    ("int8", 8, True, True, False), ("uint16", 16, False, True, False),
    ("int64", 64, True, True, False), ("float32", 32, True, False, True),
    ("float64", 64, True, False, True), ("bool", 1, False, False, False)])
def test_number_types(dtype, bits, signed, integer, floating):
    assert te.bits(dtype) == bits
    assert te.numpy_dtype(dtype) == np.dtype(dtype)
    assert (te.is_signed(dtype), te.is_integer(dtype), te.is_float(dtype)) == (
        signed, integer, floating)


def test_record_is_packed_and_padded_to_a_power_of_two():
    name = te.record("sample", a="int32", b="uint16", c="int8")
    layout = te.numpy_dtype(name)
    assert layout.itemsize == 8
    assert np.zeros(1, layout)["b"].dtype == "<u2"
    assert list((layout.fields or {}).items())[2] == ("c", (np.dtype("int8"), 6))
    assert te.record_fields(name) == {"a": "int32", "b": "uint16", "c": "int8"}
    assert te.record_places(name) == {"a": ("int32", 0), "b": ("uint16", 4), "c": ("int8", 6)}
    assert te.is_record(name)
    assert not te.is_integer(name)


def test_record_may_be_declared_again():
    assert te.record("again", a="int8") == te.record("again", a="int8")


def test_record_that_changes_wrong():
    te.record("fixed", a="int8")
    with pytest.raises(ValueError, match="^Record 'fixed' must keep its fields .*, not .*$"):
        te.record("fixed", a="int16")


@pytest.mark.parametrize("dtype, bits, held", [
    ("int24", 24, "int32"), ("int40", 40, "int64"), ("int48", 48, "int64")])
def test_integers_that_numpy_lacks(dtype, bits, held):
    assert te.bits(dtype) == bits and te.numpy_dtype(dtype) == np.dtype(held)
    assert te.is_signed(dtype) and te.is_integer(dtype)
    assert te.const(-(1 << bits - 1), dtype).value == -(1 << bits - 1)
    with pytest.raises(ValueError, match=f"^Constant must fit {dtype}, not {1 << bits - 1}$"):
        te.const(1 << bits - 1, dtype)


def test_record_of_a_type_that_numpy_lacks_wrong():
    message = "Field a of record 'wide' must have a type of NumPy's, not int24"
    with pytest.raises(ValueError, match=f"^{message}$"):
        te.record("wide", a="int24")


def test_record_named_like_a_number_wrong():
    message = "Record name must not be the name of a number type, not 'int8'"
    with pytest.raises(ValueError, match=f"^{message}$"):
        te.record("int8", a="int8")


@pytest.mark.parametrize("dtype", ["int7", "float8", "str", "int8 ", ""])
def test_unknown_type_wrong(dtype):
    message = f"Element type must be a number type or a declared record, not {dtype!r}"
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        te.numpy_dtype(dtype)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_floats_of_16_bits(dtype):
    assert te.is_float(dtype) and te.is_signed(dtype) and not te.is_integer(dtype)
    assert te.bits(dtype) == 16 and te.numpy_dtype(dtype).name == dtype
