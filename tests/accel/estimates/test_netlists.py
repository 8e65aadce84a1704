"""Parts that are counted in their netlists: amounts by hand, and what follows from them."""

from accel.estimates import model
from accel.estimates.area import area
from accel.estimates.netlists import NetlistAmounts, amounts_by_module, summed
from accel.estimates.structure import parts
from accel.machine.machine import Machine
from accel.machine.structure import UnitKind
from accel.sim.slice.netlist import netlist_of
from tests.support.machines import TINY
from tests.support.streams import Raise, Reverse, machine_of

STREAMS = machine_of()
(TURN,) = STREAMS.structure.of_kind(UnitKind.STREAM)


def counted(component) -> NetlistAmounts:
    return summed(amounts_by_module(netlist_of(component, "c")).values())


def shape_of(name: str):
    return STREAMS.intrinsic(name).shape


def test_a_component_of_adders_by_hand() -> None:
    """Four elements of 8 bits, and nothing else."""
    found = counted(Raise(shape_of("raise_by")))
    assert found.luts == 4 * (8 + 1)        # the lowest bit of a chain is a table besides
    assert (found.registers, found.distributed, found.multipliers) == (0, 0, 0)


def test_a_component_that_keeps_a_row_by_hand() -> None:
    """Twelve rows of 32 bits, four bits and sixteen rows a cell; a count to 12, and a state."""
    found = counted(Reverse(shape_of("reverse")))
    assert (found.registers, found.distributed, found.block_rams) == (4 + 1, 32 // 4, 0)
    assert 3 * 4 < found.luts < 3 * 4 + 12      # a count that goes up and down, and its state


def test_what_nothing_depends_on_is_not_counted() -> None:
    whole = counted(Reverse(shape_of("reverse")))
    netlist = netlist_of(Reverse(shape_of("reverse")), "c")
    netlist.outputs.pop("o__payload")
    less = summed(amounts_by_module(netlist).values())
    assert less.distributed == 0 < whole.distributed and less.registers == whole.registers


def test_a_stream_unit_is_part_of_the_area_with_an_interval_of_its_own() -> None:
    found, without = area(STREAMS), area(TINY)
    unit = found.units[TURN.name]
    assert unit["luts"].value > 500 and unit["registers"].value > 1000
    for figure in ("luts", "registers", "distributed"):
        assert unit[figure].value in unit[figure]
        more = getattr(found, figure).value - getattr(without, figure).value
        assert more >= unit[figure].value, figure
    wide = found.luts.high - found.luts.value, without.luts.high - without.luts.value
    assert wide[0] - wide[1] >= model.read().errors["netlist"]["luts"] * unit["luts"].value - 1
    assert {name for name in parts(STREAMS) if name.split(".")[0] == TURN.name} == {
        TURN.name, f"{TURN.name}.component_reverse", f"{TURN.name}.component_raise_by"}
    assert "res_turn" in found.units                # a copy of res for each reader


def test_a_larger_component_is_larger() -> None:
    def registers(machine: Machine) -> float:
        return area(machine).units[TURN.name]["distributed"].value

    class Twice(Reverse):
        def elaborate(self, platform):
            m = super().elaborate(platform)
            m.submodules.kept_too = more = Reverse(STREAMS.intrinsic("reverse").shape)
            m.d.comb += [more.i.p.eq(self.i.p), more.i.valid.eq(self.i.valid),
                         more.o.ready.eq(self.o.ready)]
            with m.If(more.o.valid & (more.o.p.data == 0)):
                m.d.comb += self.o.valid.eq(0)
            return m

    assert registers(machine_of(reverse=Twice)) == registers(STREAMS) + 8
