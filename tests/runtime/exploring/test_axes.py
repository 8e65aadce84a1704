"""What can be varied, and what is refused."""

import re
from pathlib import Path

import pytest

from accel.machine.config import ConfigError, preset
from accel.machine.structure import StructureError
from runtime.exploring.axes import (AxisError, VariedAxis, axes_of_file, axis_of, changed_config,
                                    field_of)

TINY = preset("tiny-1x4x4")


@pytest.mark.parametrize(("text", "axis"), [
    ("block_out=8,16", VariedAxis("block_out", ("8", "16"))),
    ("wgt=half,same", VariedAxis("wgt_bytes", ("half", "same"))),
    ("memory.latency=16", VariedAxis("memory.latency", ("16",))),
    ("timing.ahead=8,half", VariedAxis("timing.ahead", ("8", "half"))),
    ("weight_bits=8,8+4", VariedAxis("weight_bits", ("8", "8+4"))),
    ("dataflow=adder_tree,weight_stationary", VariedAxis("dataflow", (
        "adder_tree", "weight_stationary"))),
    ("units=1,2", VariedAxis("units", ("1", "2"))),
    ("machine=a.py,tiny-1x4x4", VariedAxis("machine", ("a.py", "tiny-1x4x4")))])
def test_fields_and_their_values(text: str, axis: VariedAxis) -> None:
    assert axis_of(text) == axis


@pytest.mark.parametrize(("values", "field", "value"), [
    ({"wgt_bytes": "double"}, "wgt_bytes", 2 * TINY.wgt_bytes),
    ({"block_out": "half"}, "block_out", 2), ({"wgt_bytes": "4k"}, "wgt_bytes", 4096),
    ({"dataflow": "output_stationary"}, "dataflow", "output_stationary"),
    ({"weight_bits": "8+4"}, "weight_bits", (8, 4)), ({"wgt_bytes": "same"}, "wgt_bytes",
                                                      TINY.wgt_bytes)])
def test_values_become_those_of_the_machine(values, field: str, value) -> None:
    assert getattr(changed_config(TINY, values), field) == value


def test_units_of_vector_are_varied() -> None:
    config = changed_config(TINY, {"units": "2", "block_out": "8"})
    assert (field_of(config, "units"), field_of(TINY, "units"), config.block_out) == (2, 1, 8)
    assert changed_config(config, {"units": "half", "block_out": "4"}) == TINY
    with pytest.raises(StructureError, match="^Units must be at most 8, not 9: "):
        changed_config(TINY, {"units": "6"})


def test_the_memory_keeps_what_is_not_varied() -> None:
    config = changed_config(changed_config(TINY, {"memory.latency": "7"}),
                            {"memory.bytes_per_cycle": "1.5", "memory.in_order": "true"})
    assert config.memory.options == {"latency": 7, "bytes_per_cycle": 1.5, "in_order": True}


def test_so_do_the_times() -> None:
    config = changed_config(changed_config(TINY, {"timing.ahead": "half"}),
                            {"timing.nest_cycles": "5", "timing.bursts": "32"})
    assert config.timing.options == {"ahead": 8, "nest_cycles": 5, "bursts": 32}
    with pytest.raises(ConfigError, match="^ahead of the timing must be a power of two, not 5$"):
        changed_config(TINY, {"timing.ahead": "5"})


@pytest.mark.parametrize(("text", "message"), [
    ("block_out", "What is varied must be FIELD=VALUE,VALUE..., not 'block_out'"),
    ("block_out=8,8", "block_out must have each value once, not '8,8'"),
    ("block_out=8,,16", "block_out must have values with commas between, not '8,,16'"),
    ("operand=int8", "operand cannot be varied alone: it follows from the declared instructions; "
                     "vary machine=FILE.py,... instead"),
    ("block_out=wide", "block_out must be a number, or one of eighth, quarter, half, same, double, "
                       "quadruple, octuple, not 'wide'"),
    ("weight_bits=half", "weight_bits must be a value of its own, not 'half'"),
    ("dataflow=half", "dataflow must be one of adder_tree, weight_stationary, output_stationary, "
     "not 'half'")])
def test_what_cannot_be_varied(text: str, message: str) -> None:
    with pytest.raises(AxisError, match=f"^{re.escape(message)}$"):
        axis_of(text)


def test_an_unknown_field_is_told_with_those_that_there_are() -> None:
    with pytest.raises(AxisError, match="^What is varied must be one of batch, .*memory.latency.* "
                                        "units, machine or effort, not 'width'$"):
        axis_of("width=8")


def test_efforts_are_those_of_a_search() -> None:
    assert axis_of("effort=0,2").options == ("0", "2")
    with pytest.raises(AxisError, match="^effort must be 0 to 2, not '3'$"):
        axis_of("effort=3")


def test_half_of_an_odd_number_is_refused() -> None:
    with pytest.raises(AxisError, match="^batch must be a whole number, not half of 1$"):
        changed_config(TINY, {"batch": "half"})


def test_a_file_has_the_same_axes(tmp_path: Path) -> None:
    path = tmp_path / "space.toml"
    path.write_text('[vary]\nblock_out = [8, 16]\nwgt = ["half"]\nweight_bits = [[8], [8, 4]]\n'
                    '[vary.memory]\nlatency = [16]\nin_order = [true]\n'
                    '[vary.timing]\nahead = [8]\n')
    assert axes_of_file(path) == [*map(axis_of, (
        "block_out=8,16", "wgt=half", "weight_bits=8,8+4", "memory.latency=16",
        "memory.in_order=true", "timing.ahead=8"))]


@pytest.mark.parametrize(("text", "message"), [
    ("a = 1", "must have a table [vary] with fields, and nothing else"),
    ("[vary]\nblock_out = 8", "block_out must have a list of values, not 8"), ("=", "cannot be")])
def test_another_file_is_refused(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "s.toml").write_text(text)
    with pytest.raises(AxisError, match=re.escape(message)):
        axes_of_file(tmp_path / "s.toml")
