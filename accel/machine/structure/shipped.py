"""The structure of every machine that names no other."""

from accel.machine.structure.records import BufferRecord, Unit, UnitKind, UnitPort
from accel.machine.structure.structure import Structure

SHIPPED_STRUCTURE = Structure(
    units=(
        Unit("load", UnitKind.LOAD, (
            UnitPort("dst", "inp"), UnitPort("dst", "wgt"), UnitPort("dst", "res"),
            UnitPort("dst", "par"), UnitPort("dst", "tab"))),
        Unit("gemm", UnitKind.GEMM, (
            UnitPort("a", "inp"), UnitPort("b", "wgt"), UnitPort("dst", "acc"))),
        Unit("vector", UnitKind.VECTOR, (
            UnitPort("a", "acc"), UnitPort("a", "res"),
            UnitPort("b", "acc"), UnitPort("b", "res"), UnitPort("b", "par"),
            UnitPort("record", "par"), UnitPort("table", "tab"),
            UnitPort("dst", "acc"), UnitPort("dst", "out"))),
        Unit("store", UnitKind.STORE, (UnitPort("src", "out"),)),
    ),
    buffers=(
        BufferRecord("inp", ("batch", "block_in"), "operand", "inp_bytes"),
        BufferRecord("wgt", ("block_out", "block_in"), "weight", "wgt_bytes", packed=True),
        BufferRecord("res", ("batch", "block_out"), "output", "res_bytes"),
        BufferRecord("par", ("block_out",), "param", "par_bytes"),
        BufferRecord("acc", ("batch", "block_out"), "accumulator", "acc_bytes", banks=2),
        BufferRecord("out", ("batch", "block_out"), "output", "out_bytes"),
        BufferRecord("tab", (256,), "int8", "tab_bytes"),
    ))
"""The structure of every machine that names no other."""
