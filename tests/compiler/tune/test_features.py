"""Features of loop programs: how many, which, and what schedules change in them."""

import pytest

from compiler import te
from compiler.ir import lower
from compiler.schedule import Schedule
from compiler.te import Buffer, Var
from compiler.tune.accesses import MemoryAccess, VectorCore
from compiler.tune.features import NAMES, features

CORE = VectorCore(8, 16, (1 << 15, 1 << 20))


def product(rows: int = 64, columns: int = 96, depth: int = 32) -> Schedule:
    x = te.placeholder((rows, depth), "float32", name="x")
    y = te.placeholder((depth, columns), "float32", name="y")
    k = te.reduce_axis(depth, name="k")
    return Schedule([te.compute((rows, columns), lambda i, j: te.sum(
        x[i, k] * y[k, j], axis=k), name="z")])


def of(s: Schedule) -> dict[str, float]:
    found = features(s.program, CORE)
    assert len(found) == len(NAMES) == len(set(NAMES))
    return dict(zip(NAMES, found))


def test_counts_are_those_of_the_program() -> None:
    found = of(product(4, 8, 15))
    counts = {name: round(2 ** found[name] - 1) for name in (
        "arithmetic", "touches", "bytes touched", "statements", "statements written out",
        "iterations of statement 0", "terms of statement 0", "iterations of serial loops")}
    assert counts == {"arithmetic": 2 * 480, "touches": 3 * 480, "bytes touched": 12 * 480,
                      "statements": 1, "statements written out": 1,
                      "iterations of statement 0": 480, "terms of statement 0": 15,
                      "iterations of serial loops": 480}
    assert found["is reduction of statement 0"] == 1
    assert found["iterations of statement 1"] == found["iterations of statement 2"] == 0


def test_vectors_and_what_is_unrolled_are_seen() -> None:
    s = product()
    before = of(s)
    s["z"].split("j", 8)
    s["z"].split("i", 4)
    s["z"].reorder("i_o", "j_o", "k", "i_i", "j_i")
    s["z"].unroll("i_i")
    s["z"].vectorize("j_i")
    after = of(s)
    assert before["arithmetic"] == after["arithmetic"]
    assert round(2 ** after["vector extent of statement 0"] - 1) == 8
    assert round(2 ** after["sums at once of statement 0"] - 1) == 4
    assert round(2 ** after["statements written out"] - 1) == 4
    assert after["in vector order of statement 0"] == 2         # y and z
    assert after["constant along vectors of statement 0"] == 1  # x
    assert after["loads a term of statement 0"] == (4 + 1) / 4
    assert before["loads a term of statement 0"] == 2
    assert after["iterations of serial loops"] < before["iterations of serial loops"]


def test_strides_across_rows_are_seen() -> None:
    s = product()
    s["z"].reorder("k", "i")
    s["z"].vectorize("i")
    found = of(s)
    assert found["across vectors of statement 0"] == 2          # x and z
    assert found["constant along vectors of statement 0"] == 1


def test_tiles_reduce_traffic() -> None:
    s = product(256, 256, 256)
    before = of(s)
    s["z"].tile("i", "j", 8, 16)
    after = of(s)
    name = "traffic of cache 1 of statement 0"
    assert after[name] < before[name]
    assert after["reuse in cache 1 of statement 0"] > before["reuse in cache 1 of statement 0"]


def test_copies_allocations_guards_and_threads_are_seen() -> None:
    s = product(60, 90, 32)
    before = of(s)
    assert before["bytes allocated"] == before["guarded iterations"] == 0
    s["y"].cache_read("global")
    s["z"].split("j", 16)
    s["z"].parallel("i")
    found = {name: round(2 ** value - 1) for name, value in of(s).items()}
    assert found["bytes allocated"] == found["largest allocation"] == 32 * 90 * 4
    assert found["copied elements"] == 32 * 90 and found["allocations"] == 1
    assert found["guarded iterations"] == 60 * 96 * 32
    assert found["shared iterations"] == 60


def test_symbols_and_data_as_indices_have_features() -> None:
    n = te.symbol("n")
    x, where = te.placeholder((30, 20), "float32", name="x"), te.placeholder(
        (20,), "int32", name="where")
    y = te.compute((20, 20), lambda i, j: x[te.cast(where[i], te.INDEX), j], name="y")
    of(Schedule(lower([y], "gathered")))
    z = te.compute((n,), lambda i: x[3, 4] + 1.0, name="z")
    of(Schedule(lower([z], "symbols")))


@pytest.mark.parametrize(("indices", "box", "elements", "stride"), [
    ((Var("i"), Var("j")), (4, 8), 32, 1),
    ((Var("i") * 2 + 1, Var("j") // 4), (7, 2), 14, None),
    ((Var("j") + Var("i"), Var("j") * 3), (11, 20), 32, 23),
    ((Var("j") % 4, Var("k")), (4, 1), 4, None),
])
def test_boxes_and_strides(indices: tuple, box: tuple, elements: int, stride: int | None) -> None:
    touch = MemoryAccess(Buffer("x", (40, 20), "float32"), indices)
    extents = {Var("i"): 4, Var("j"): 8}
    assert touch.box(extents) == box
    assert touch.elements(extents) == elements
    assert touch.stride(Var("j")) == stride
    assert touch.stride(Var("l")) == 0


def test_lines_of_caches_count_whole() -> None:
    touch = MemoryAccess(Buffer("x", (64, 64), "float32"), (Var("i"), Var("j")))
    assert touch.bytes({Var("i"): 8}) == 8 * 64             # a column
    assert touch.bytes({Var("j"): 32}) == 2 * 64
    assert touch.bytes({Var("i"): 8, Var("j"): 17}) == 8 * 2 * 64
