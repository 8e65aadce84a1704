"""Wrong declarations: each is one line that names the place and the rule, with exit status 2."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from accel.machine.config import preset
from lockstep.cli import main

ROOT = Path(__file__).parents[2]
HEAD = """
from dataclasses import replace

import lockstep
from accel.machine.intrinsics import SHIPPED, Declaration, vector_op
from compiler import te
from compiler.te import Axis, Var
from compiler.tensorize import Immediate, Intrinsic, Operand

TINY = lockstep.preset("tiny-1x4x4")
AXES = Axis(Var("x"), 1), Axis(Var("y"), 4)
TILE, X, Y = (1, 4), AXES[0].var, AXES[1].var
DST = Operand("dst", TILE, "int32", (("acc", "int32"),))
A = Operand("a", TILE, "int32", (("acc", "int32"),))


def read(name="a", shape=TILE, dtype="int32"):
    return te.placeholder(shape, dtype, name)


def machine_of(*more):
    return lockstep.Machine(TINY, (*SHIPPED, *more))


def own(value, *operands, dst=DST, axes=AXES, unit="vector", **changes):
    body = Intrinsic("own", "vector", dst, operands or (A,), axes, value, loops=5)
    return Declaration("own", unit, lambda config: (replace(body, **changes),))

"""


def geometry(**fields: object) -> str:
    text = preset("tiny-1x4x4").to_toml()
    lines = [line for line in text.splitlines() if line.partition(" ")[0] not in fields]
    return "\n".join([*lines, *(f"{name} = {value}" for name, value in fields.items()), ""])


def op(value: str, more: str = "", name: str = "'own'") -> str:
    return f"machine = machine_of(vector_op({name}, lambda {value}{more}))\n"


def body(value: str, more: str = "") -> str:
    return f"machine = machine_of(own({value}{more}))\n"


AXIS = "read()[X, Y]"
CODE = {
    # types
    "a float value": (op("a: te.sqrt(a.astype('float32'))"), "own must be int32, not float32"),
    "an int64 value": (op("a: a.astype('int64')"), "must be int32, not int64"),
    "an int8 value": (op("a: a.astype('int8')"), "must be int32, not int8"),
    "a comparison as value": (op("a, b: a < b"), "must be int32, not bool"),
    "float inside": (op("a: te.sqrt(a.astype('float32')).astype('int32')"),
                     "Function sqrt in own must be a table"),
    "a wide float inside": (op("a: (a.astype('float64') * 2.0).astype('int32')"),
                            "or float16, bfloat16, float32, float8_e4m3fn, float8_e5m2, not "
                            "float64 (body of own)"),
    "a division": (op("a, b: a // b"), "Operator floordiv in own must be a shift"),
    "a remainder": (op("a, b: a % b"), "Operator mod in own must be a shift"),
    "a factor that is no integer": (op("a: a * 0.5"), "Constant must fit int32, not 0.5"),
    "a bound that is no integer": (op("a: te.select(a < 0.5, a, 0)"), "fit int32, not 0.5"),
    "a constant that is no integer": (op("a: a + te.const(2.5, 'int32')"), "fit int32, not 2.5"),
    "an infinite number": (op("a: a + float('inf')"), "fit int32, not inf"),
    "a text as operand": (op("a: a + 'b'"), "must be an expression or a number, not 'b'"),
    "a number as value": (op("a: 3"), "own must be an int32 expression, not 3"),
    "None as value": (op("a: None"), "own must be an int32 expression, not None"),
    "a text as value": (op("a: 'a + b'"), "own must be an int32 expression, not 'a + b'"),
    "types that do not fit": (op("a, zp: a + zp"), "must have one type, not int32 and int8"),
    "a sum of bools": (op("a, b: ((a < b) + (a > b)).astype('int32')"),
                       "Operator add in own must not be on bool"),
    "an unsigned operand": (body(AXIS, ", replace(A, dtype='uint32')"), "Operand a of own"),
    "a value read as another type": (body("read(dtype='uint32')[X, Y].astype('int32')"),
                                     "must read a as int32"),
    "stored as another type": (
        body(AXIS, ", replace(A, storage=(('acc', 'int16'),))"), "stored in acc as int32"),
    "a destination of 16 bits": (
        body(AXIS, ", dst=replace(DST, dtype='int16', storage=(('acc', 'int16'),))"),
        "Operand dst of own"),
    # indices
    "an index beyond the tile": (body("read()[X, te.const(4, 'int64')]"), "0 ... 3"),
    "a negative index": (body("read()[X, te.const(-1, 'int64')]"), "0 ... 3"),
    "an index that is computed": (body("read()[X, Y + 1]"),
                                  "Index of a must lie in 0 ... 3, not in 1 ... 4 (body of own)"),
    "an axis of another operand": (body("read()[Y, Y]"), "Index y of a in own"),
    "an index that is no axis": (body("read()[X, Var('z')]"), "'z'"),
    "too few indices": (body("read()[X]"), "a has 2 dimensions, not 1"),
    "a float index": (body("read()[X, te.const(1.0, 'float32')]"),
                      "Index of a in own must be an integer, not 1.0"),
    # names and units
    "a name with a dash": (op("a: a", name="'my-op'"), "identifier, not 'my-op'"),
    "an empty name": (op("a: a", name="''"), "identifier, not ''"),
    "a number as name": (op("a: a", name="3"), "identifier, not 3"),
    "the name of another": (op("a: a", name="'add'"), "Instruction add must be declared once"),
    "finish": (op("a: a", name="'finish'"), "Instruction finish must have another name"),
    "illegal": (op("a: a", name="'illegal'"), "Instruction illegal must have another name"),
    "a unit that is none": (body(AXIS, ", unit='matrix'"), "Unit of own must be one of"),
    "a unit that is another": (body(AXIS, ", unit='gemm'"), "unit gemm, not vector"),
    "a destination of another name": (body(AXIS, ", dst=replace(DST, name='d')"),
                                      "must be named dst"),
    "an operand of another name": (
        body("read('c')[X, Y]", ", replace(A, name='c')"), "Operand c of own"),
    "an operand that is missing": (body("read('b')[X, Y]"), "'b'"),
    "an operand twice": (body(AXIS, ", A, A"), "must be declared once"),
    "no vector instruction": (
        "machine = lockstep.Machine(TINY, SHIPPED[:3])\n", "must have an instruction of vector"),
    "no instruction": ("machine = lockstep.Machine(TINY, ())\n", "must have an instruction of"),
    "too many instructions": (
        "machine = machine_of(*(vector_op(f'n{i}', lambda a: a) for i in range(250)))\n",
        "at most 254"),
    # parameters, immediates
    "a parameter that is none": (op("a, c: a + c"), "not 'c'"),
    "parameters without a number": (
        op("*a: a[0]"), "Parameter a of vector operation own must be a plain one"),
    "an immediate of another range": (
        body(AXIS, ", immediates=(Immediate('zp', 'int8', -1, 1),)"), "Immediate zp of own"),
    "an immediate of some numbers": (
        body(AXIS, ", immediates=(Immediate('scale', 'int8', 0, 9),)"),
        "Immediate scale of own must be from 0 to 15, all numbers of its field"),
    "an immediate of no type": (
        body(AXIS, ", immediates=(Immediate('scale', 'int7', 0, 1),)"),
        "or a declared record, not 'int7'"),
    "an immediate from text": (
        body(AXIS, ", immediates=(Immediate('scale', 'int8', 'a', 'b'),)"),
        "from one integer to another, not from a to b"),
    "an immediate without room": (
        body(AXIS, ", immediates=tuple(Immediate(f'n{k}', 'int32', -1 << 31, (1 << 31) - 1) "
                   "for k in range(4))"),
        "Immediate n3 of own must fit its word: it takes 32 bits, and 16 in a row are free"),
    "an immediate that is a field of words": (
        body(AXIS, ", immediates=(Immediate('opcode', 'int8', 0, 1),)"),
        "Immediate opcode of own must have another name"),
    # scopes
    "a scope that is none": (op("a: a", ", a=('cache',)"), "Scopes of a of own"),
    "a scope of another operand": (op("a: a", ", a=('par',)"), "Scopes of a of own"),
    "no scope": (op("a: a", ", a=()"), "Operand a of own must have a scope to live in"),
    "a text as scopes": (op("a: a", ", a='res'"), "of acc, res, not 'res'"),
    "accumulating from acc alone": (op("a: a", ", a=('acc',), update='sum'"),
                                    "update sum takes its read port"),
    "storage without types": (body(AXIS, ", replace(A, storage=('acc', 'int32'))"),
                              "Storage of operand a must be pairs"),
    # tables
    "a table read beyond its end": (op("a, table: table[a]"), "0 ... 255"),
    "a destination in res": (
        body(AXIS, ", dst=replace(DST, storage=(('res', 'int8'),))"), "Operand dst of own"),
    # shapes
    "half a tile": (body("read(shape=(1, 2))[X, Y]", ", replace(A, shape=(1, 2))"),
                    "must have the shape (1, 4) of an entry, not (1, 2)"),
    "a window": (body(AXIS, ", replace(A, window=True)"), "not a window"),
    "axes of another extent": (body(AXIS, ", axes=(AXES[0], Axis(Var('y'), 2))"), "Axes of own"),
    "a value that is a tensor": (body("read()"), "own must be one expression, not a tensor"),
    # loops and updates
    "six loops": (body(AXIS, ", loops=6"), "0 to 5, which its word has, not 6"),
    "loops below zero": (body(AXIS, ", loops=-1"), "must be 0 to 5, which its word has, not -1"),
    "half a loop": (body(AXIS, ", loops=2.5"), "must be 0 to 5, which its word has, not 2.5"),
    "an update that is none": (op("a: a", ", update='mean'"), "Update of own"),
    "a feature": (body(AXIS, ", needs=('dot',)"), "Needs of own must be empty"),
    "two forms": (
        "one = own(read()[X, Y])\nmachine = machine_of(Declaration('own', 'vector', "
        "lambda config: one.build(config) * 2))\n", "one form, not 2"),
    "a form that is none": (
        "machine = machine_of(Declaration('own', 'vector', lambda config: (3,)))\n",
        "Forms of own must be intrinsics, not 3"),
    "forms that are a number": (
        "machine = machine_of(Declaration('own', 'vector', lambda config: 3))\n",
        "must be a tuple of intrinsics, not int"),
    "no form": ("machine = machine_of(Declaration('own', 'vector', lambda config: ()))\n",
                "one form, not 0"),
    "load that computes": (
        "machine = machine_of(Declaration('own', 'load', lambda config: "
        "SHIPPED[1].build(config)))\n", "Forms of own must have its name own, not store"),
    # machine files
    "a geometry as text": ("machine = lockstep.Machine('tiny-1x4x4')\n", "have an AccelConfig"),
    "no machine": ("other = machine_of()\n", "must leave a Machine in the variable machine"),
    "a geometry as machine": ("machine = TINY\n", "not AccelConfig"),
    "two machines": ("machine = [machine_of(), machine_of()]\n", "not list"),
    "code that raises": ("raise RuntimeError('not today')\n", "RuntimeError: not today"),
    "code that exits": ("raise SystemExit(0)\n", "SystemExit"),
    "code with an error": ("machine = 1 / 0\n", "ZeroDivisionError"),
    "a module that is none": ("import nothing_like_it\n", "nothing_like_it"),
    "no Python": ("this is no Python\n", "SyntaxError"),
    "a replaced field": ("machine = lockstep.Machine(replace(TINY, batch=17))\n", "batch must be"),
    "instructions that can be read once": (
        "machine = lockstep.Machine(TINY, (one for one in SHIPPED))\n", "must be a tuple of"),
    "an instruction that is none": ("machine = machine_of('add')\n", "'add'"),
}
TOML = {
    "not TOML": ("array = [", "cannot be read"),
    "a field that is none": (geometry(rows=3), "unknown fields rows"),
    "a field that is missing": ("batch = 1\n", "lacks"),
    "no power of two": (geometry(bus_bytes=3), "bus_bytes must be a power of two, not 3"),
    "a block too wide": (geometry(block_out=257), "block_out must be from 1 to 256, not 257"),
    "a text for a number": (geometry(bus_bytes='"8"'), "bus_bytes must be a positive integer"),
    "zero": (geometry(batch=0), "batch must be a positive integer, not 0"),
    "a buffer too small": (geometry(acc_bytes=16), "acc_bytes must be at least 4 entries"),
    "a bus too wide": (geometry(bus_bytes=1024), "bus_bytes must be from 1 to 512, not 1024"),
    "more beats than lanes": (geometry(vector_beats=8), "vector_beats must be at most the 4 lanes"),
    "another element": (geometry(operand='"int4"'), "operand must be int8"),
    "deep stages": (geometry(stage_depth=9), "stage_depth must be from 1 to 8, not 9"),
}


@pytest.fixture(autouse=True)
def there(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)


def judged(status: int, out: str, said: str, words: str) -> None:
    assert status == 2 and not out
    assert said.startswith("lockstep: error: ") and said.count("\n") == 1
    assert words in said and "Traceback" not in said


@pytest.mark.parametrize(("text", "words"), CODE.values(), ids=CODE)
def test_wrong_code_is_one_line(text: str, words: str, capsys) -> None:
    Path("mine.py").write_text(HEAD + text)
    status, (out, said) = main(["isa", "--machine", "mine.py"]), capsys.readouterr()
    judged(status, out, said, words)


@pytest.mark.parametrize(("text", "words"), TOML.values(), ids=TOML)
def test_a_wrong_geometry_is_one_line(text: str, words: str, capsys) -> None:
    Path("mine.toml").write_text(text)
    status, (out, said) = main(["isa", "--machine", "mine.toml"]), capsys.readouterr()
    judged(status, out, said, words)


def test_what_is_right_passes(capsys) -> None:
    """The head alone is no reason for a refusal."""
    Path("mine.py").write_text(HEAD + op("a, b: te.abs(a - b)"))
    Path("mine.toml").write_text(geometry())
    for name in ("mine.py", "mine.toml"):
        assert main(["isa", "--machine", name]) == 0


@pytest.mark.parametrize("case", [
    "code that raises", *(pytest.param(case, marks=pytest.mark.slow)
                          for case in ("an int64 value", "a division"))])
def test_as_processes(case: str) -> None:
    text, words = CODE[case]
    Path("mine.py").write_text(HEAD + text)
    done = subprocess.run([sys.executable, "-m", "lockstep", "isa", "--machine", "mine.py"],
                          capture_output=True, text=True,
                          env={**os.environ, "PYTHONPATH": str(ROOT)})
    judged(done.returncode, done.stdout, done.stderr, words)
