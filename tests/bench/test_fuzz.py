"""Spoiled input of every kind: the fuzzer sees each kind of fault, and finds none here."""

import sys
import time
from collections import Counter
from pathlib import Path

import numpy as np
import onnx
import pytest

from bench.robustness import fuzz
from tests.support.spoiled import onnx_bombs, onnx_mutations
from bench.robustness.fuzz import BENCH, FINDS, Verdict, judge, replay
from tests.support.spoiled.kinds import ANY, KINDS, PEER, SAME, Case, _inputs
from bench.support.isolated import Limits, isolated
from tests.support.spoiled.onnx_mutations import MODELS, MUTATIONS, write
from bench.support.peers import compared, save_arrays
from tests.support.spoiled.arrays import _npy_header

SIZES = {"x": np.ones(3, np.float32)}


# ---- what is given to commands -------------------------------------------------------------------


@pytest.mark.parametrize("mutate", MUTATIONS, ids=[one.__name__ for one in MUTATIONS])
def test_every_mutation_changes_files(mutate, tmp_path: Path) -> None:
    changed = 0
    for seed in range(8):
        folder = tmp_path / str(seed)
        folder.mkdir()
        write("external", folder)
        before = contents(folder)
        mutate(np.random.default_rng(seed), folder)
        changed += contents(folder) != before
    assert changed >= 5


def contents(folder: Path) -> list[bytes]:
    return [path.read_bytes() for path in sorted(folder.iterdir())]


@pytest.mark.parametrize("name", onnx_bombs.BOMBS)
def test_bombs_are_small(name: str) -> None:
    for seed in range(100 if name == "chain" else 10):
        assert len(onnx_bombs.BOMBS[name](np.random.default_rng(seed))) < 1 << 19


@pytest.mark.slow
def test_the_models_themselves_run(tmp_path: Path) -> None:
    """So it is the mutation that is refused."""
    pytest.importorskip("onnxruntime")
    for name in MODELS:
        folder = tmp_path / name
        folder.mkdir()
        shape = {one.name: [dim.dim_value for dim in one.type.tensor_type.shape.dim]
                 for one in onnx.load(write(name, folder)).graph.input}
        save_arrays(folder / "inputs.npz", {
            one: np.random.default_rng(0).random(extents, np.float32)
            for one, extents in shape.items()})
        case = Case("onnx", name, ("run", "model.onnx", "--target", "cpu", "--no-cache", "--input",
                                   "inputs.npz", "--output", "result.npz"), PEER,
                    0.05 if name == "quantized" else 1e-4)
        verdict = judge(case, folder)
        assert (verdict.outcome, verdict.detail) == ("equal", "onnx_runtime")


def test_a_seed_decides_everything(tmp_path: Path) -> None:
    """But for what lies in sound files, which hold the time and the processor."""
    for kind in ("onnx", "bomb"):
        made = []
        for place in ("first", "again"):
            folder = tmp_path / kind / place
            folder.mkdir(parents=True)
            case = KINDS[kind](np.random.default_rng(5), folder, tmp_path)
            made.append((case, contents(folder)))
        assert made[0] == made[1]


@pytest.mark.parametrize(("pads", "expect"), [(0, PEER), (1, ANY)])
def test_a_maximum_of_padding_alone_has_no_peer(pads: int, expect: str, tmp_path: Path,
                                                monkeypatch) -> None:
    """ONNX Runtime refuses it, the reference gives 0 and not the least number."""
    def pooled(rng: np.random.Generator) -> bytes:
        made = onnx_mutations.Made()
        made.node("MaxPool", "x", kernel_shape=[1, 1], pads=[pads] * 4, y="y")
        return made.model((1, 4, 4, 4), 17, ()).SerializeToString()

    monkeypatch.setattr(onnx_bombs, "BOMBS", {"pooled": pooled})
    assert KINDS["bomb"](np.random.default_rng(0), tmp_path, tmp_path).expect == expect


# ---- what commands do ----------------------------------------------------------------------------


def spin() -> int:
    while True:
        pass


def fill() -> int:
    held = b"x" * (3 << 27)
    return len(held) and 0


def crash() -> int:
    import ctypes

    return ctypes.string_at(0)[0]


def refuse(text: str) -> int:
    print(text, file=sys.stderr)
    return 2


@pytest.mark.parametrize(("fault", "outcome", "said"), [
    (lambda: [][0], "traceback", "IndexError"),
    (spin, "hang", "s; "),
    (lambda: time.sleep(60) or 0, "hang", "s; "),
    (fill, "memory", "MiB"),
    (crash, "crash", "SIGSEGV"),
    (lambda: refuse("lockstep: error: a\nb"), "message", "lockstep: error: a\nb"),
    (lambda: refuse("a"), "message", "a"),
    (lambda: refuse(f"lockstep: error: {'a' * 5000}"), "message", "5018 characters"),
    (lambda: print("no") or 2, "message", "status 2; no"),
    (lambda: 3, "message", "status 3"),
], ids=["traceback", "hang", "wait", "memory", "crash", "two lines", "not a refusal", "long line",
        "output", "status"])
def test_a_fault_is_found(fault, outcome: str, said: str, tmp_path: Path, monkeypatch) -> None:
    limits = Limits(cpu_seconds=1, wall_seconds=3) if outcome == "hang" else Limits(4 << 30, 4, 10)
    monkeypatch.setattr(fuzz, "Limits", lambda cpu_seconds: limits)
    monkeypatch.setattr(fuzz, "MEMORY", 1 << 28)
    monkeypatch.setattr(fuzz, "_command", lambda arguments: fault())
    (tmp_path / "case").mkdir()
    verdict = judge(Case("onnx", "", (), ANY, cpu_seconds=4), tmp_path / "case")
    assert verdict.outcome == outcome and said in verdict.detail


@pytest.mark.parametrize("expect", [SAME, PEER])
def test_wrong_values_are_found(expect: str, tmp_path: Path, monkeypatch) -> None:
    if expect == PEER:
        pytest.importorskip("onnxruntime")
    folder = tmp_path / "case"
    folder.mkdir()
    node = onnx.helper.make_node("Neg", ["x"], ["y"])
    kind = onnx.helper.make_tensor_value_info
    onnx.save(onnx.helper.make_model(onnx.helper.make_graph(
        [node], "g", [kind("x", 1, [3])], [kind("y", 1, [3])]), ir_version=8,
        opset_imports=[onnx.helper.make_opsetid("", 17)]), folder / "model.onnx")
    save_arrays(folder / "inputs.npz", SIZES)
    save_arrays(folder / "wanted.npz", {"y": -SIZES["x"]})
    for values, outcome in ((-SIZES["x"], "equal"), (SIZES["x"], "wrong"),
                            (-SIZES["x"][:2], "wrong")):
        monkeypatch.setattr(fuzz, "_command", lambda arguments, values=values: save_arrays(
            Path("result.npz"), {"y": values}) or 0)
        assert judge(Case("onnx", "", (), expect), folder).outcome == outcome


@pytest.mark.parametrize("version", [1, 2])
def test_headers_of_any_length_are_written(version: int) -> None:
    """Format 1 has two bytes for a length."""
    text = b"a" * 70_000
    made = _npy_header(text, version)
    assert made.startswith(b"\x93NUMPY") and made.endswith(text)
    assert made[8:10] == (b"\xff\xff" if version == 1 else (70_000).to_bytes(4, "little")[:2])


def test_random_numbers_have_no_peer(tmp_path: Path) -> None:
    node = onnx.helper.make_node("RandomNormal", [], ["y"], shape=[3])
    kind = onnx.helper.make_tensor_value_info
    onnx.save(onnx.helper.make_model(onnx.helper.make_graph(
        [node], "g", [], [kind("y", 1, [3])])), tmp_path / "model.onnx")
    assert compared(tmp_path, "model.onnx", "inputs.npz", {"y": SIZES["x"]}, 1e-4) == (
        "no peer", "it draws random numbers")


def test_a_peer_that_warns_answers(tmp_path: Path) -> None:
    """The mean of nothing: NumPy warns, and warnings are errors here."""
    pytest.importorskip("onnxruntime")
    made = onnx_mutations.Made()
    three = made.constant(np.array([3], np.int64))
    made.node("Slice", "x", three, three, y="a")
    made.node("ReduceMean", "a", keepdims=0, y="y")
    (tmp_path / "case").mkdir()
    onnx.save(made.model((3,), 17, ()), tmp_path / "case" / "model.onnx")
    save_arrays(tmp_path / "case" / "inputs.npz", SIZES)
    assert compared(tmp_path / "case", "model.onnx", "inputs.npz",
                    {"y": np.array(np.nan, np.float32)}, 0.0) == ("equal", "reference")


@pytest.mark.parametrize("off, outcome", [
    pytest.param(0.0, "equal", marks=pytest.mark.slow), (1e-3, "wrong")])
def test_float64_decides_where_float32_loses_digits(off: float, outcome: str, tmp_path: Path
                                                    ) -> None:
    """ONNX Runtime's mean of 0.9 is off by 5.4e-4; ONNX's reference implementation does not pad by
    less than nothing.
    """
    pytest.importorskip("onnxruntime")
    made = onnx_mutations.Made()
    made.node("Pad", "x", made.constant(np.array([1, -1, 131072, 2], np.int64)), y="a", mode="edge")
    made.node("Cast", "a", y="b", to=onnx.TensorProto.FLOAT)
    made.node("ReduceMean", "b", keepdims=0, y="c")
    made.node("Add", "x", "c", y="y")
    onnx.save(made.model((2, 3)), tmp_path / "model.onnx")
    values = np.full((2, 3), 0.9, np.float32)
    save_arrays(tmp_path / "inputs.npz", {"x": values})
    ours = {"y": np.full((2, 3), 1.8 + off, np.float32)}
    assert compared(tmp_path, "model.onnx", "inputs.npz", ours, 1e-4)[0] == outcome


def test_a_model_that_no_peer_takes_is_not_judged(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    folder = tmp_path / "case"
    folder.mkdir()
    (folder / "model.onnx").write_bytes(b"x")
    save_arrays(folder / "inputs.npz", SIZES)
    assert compared(folder, "model.onnx", "inputs.npz", SIZES, 0.0)[0] == "no peer"


def test_the_limit_is_of_the_copy_alone(tmp_path: Path) -> None:
    (tmp_path / "case").mkdir()
    ended = isolated(lambda: len(bytearray(5 << 30)) and 0, tmp_path / "case", Limits())
    assert ended.status == 1 and "MemoryError" in ended.err
    assert bytearray(1 << 20)


def test_errors_may_be_in_no_character_set(tmp_path: Path) -> None:
    """A name of a file may be any bytes."""
    (tmp_path / "case").mkdir()
    ended = isolated(lambda: refuse("lockstep: error: \udcff"), tmp_path / "case", Limits())
    assert (ended.status, ended.err) == (2, "lockstep: error: \\udcff\n")


def test_a_find_is_kept_and_replayed(tmp_path: Path, monkeypatch, capsys) -> None:
    monkeypatch.setattr(fuzz, "sound_files", lambda folder, run: None)
    monkeypatch.setattr(fuzz, "_command", lambda arguments: [][0])
    finds = tmp_path / "finds"
    assert BENCH.main(["--only", "bomb", "--cases", "2", "--seed", "3", "--finds", str(finds)]) == 1
    said = capsys.readouterr().out
    assert "fuzz_finds 2" in said and "traceback: bomb-3-0: " in said
    assert sorted(path.name for path in finds.iterdir()) == ["bomb-3-0", "bomb-3-1"]
    assert replay(finds / "bomb-3-1").outcome == "traceback"
    monkeypatch.setattr(fuzz, "_command", lambda arguments: refuse("lockstep: error: no"))
    assert BENCH.main(["--replay", str(finds / "bomb-3-1")]) == 0


def test_a_find_with_arguments_in_no_character_set_is_told(tmp_path: Path, monkeypatch,
                                                            capsys) -> None:
    def odd(rng: np.random.Generator, folder: Path, sound: Path) -> Case:
        return Case("arguments", "run \udcff", ("run", "\udcff"), ANY)

    monkeypatch.setattr(fuzz, "sound_files", lambda folder, run: None)
    monkeypatch.setattr(fuzz, "_command", lambda arguments: [][0])
    monkeypatch.setitem(KINDS, "arguments", odd)
    assert BENCH.main(["--only", "arguments", "--cases", "1", "--finds", str(tmp_path)]) == 1
    assert BENCH.main(["--replay", str(tmp_path / "arguments-1-0")]) == 1
    assert capsys.readouterr().out.count("run \\udcff") == 2


@pytest.mark.parametrize(("outcomes", "found"), [
    (["equal"], 0), (["hang", "hang", "equal"], 0), (["hang"] * 3, 1), (["traceback"], 1),
    (["hang", "wrong"], 1)])
def test_what_takes_too_long_is_judged_again(outcomes: list[str], found: int, tmp_path: Path,
                                             monkeypatch) -> None:
    """In a fresh copy of its files: a command changes them."""
    left = iter(outcomes)

    def judged(case: Case, folder: Path) -> Verdict:
        (folder / "model.onnx").unlink()
        return Verdict(case, next(left), "", 0.0, 0)

    monkeypatch.setattr(fuzz, "sound_files", lambda folder, run: None)
    monkeypatch.setattr(fuzz, "judge", judged)
    assert BENCH.main(["--only", "bomb", "--cases", "1", "--finds", str(tmp_path)]) == found
    assert not list(left) and len(list(tmp_path.iterdir())) == found


@pytest.mark.slow
def test_nothing_is_found(tmp_path: Path, capsys) -> None:
    """Every kind with a fixed seed; `python -m bench robustness.fuzz` goes on for longer."""
    pytest.importorskip("onnxruntime")
    assert BENCH.main(["--cases", "140", "--seed", "7", "--finds", str(tmp_path)]) == 0, (
        capsys.readouterr().out)
    counted = Counter(line.split()[0] for line in capsys.readouterr().out.splitlines())
    assert not counted.keys() & set(FINDS)


def test_a_model_of_texts_is_given_none(tmp_path: Path) -> None:
    helper, text = onnx.helper, onnx.TensorProto.STRING
    graph = helper.make_graph(
        [helper.make_node("Identity", ["x"], ["y"])], "g",
        [helper.make_tensor_value_info("x", text, [2])],
        [helper.make_tensor_value_info("y", text, [2])])
    onnx.save(helper.make_model(graph), tmp_path / "model.onnx")
    assert _inputs(tmp_path / "model.onnx", np.random.default_rng(0)) is None
