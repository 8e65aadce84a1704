"""The cache of native code: built once, whole or not at all, by however many processes."""

import ctypes
import errno
import os
import subprocess
import sys
import threading

import pytest

from compiler import native
from compiler.native import BuildError, build_once, cache_folder, compile_shared, digest


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("LOCKSTEP_CACHE", str(tmp_path / "cache"))


def test_where_the_cache_is(monkeypatch, tmp_path):
    assert cache_folder() == tmp_path / "cache"
    monkeypatch.delenv("LOCKSTEP_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert str(cache_folder()) == "/somewhere/lockstep"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "/home/me")
    assert str(cache_folder()) == "/home/me/.cache/lockstep"


def test_a_cache_that_cannot_be_written(monkeypatch):
    """It is a request that is wrong, and for what goes on without a cache an error of files."""
    def fail(path):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr("compiler.kept._make_folder", fail)
    with pytest.raises(BuildError, match="^Cache .* must be a folder that can be written "
                                         r"\(Read-only file system\); LOCKSTEP_CACHE may name"
                       ) as error:
        build_once("kind", "key", "a thing", lambda folder: None)
    assert isinstance(error.value, OSError)


def test_an_object_is_built_once():
    built = []

    def build(folder):
        built.append(folder)
        (folder / "object").write_text("made")

    first, second = (build_once("kind", "key", "a thing", build) for _ in range(2))
    assert first == second == cache_folder() / "kind" / "key"
    assert (first / "object").read_text() == "made" and len(built) == 1
    assert not built[0].exists()                # it was built elsewhere, and moved


def test_a_build_that_fails_leaves_nothing():
    def fail(folder):
        (folder / "half").write_text("")
        raise BuildError("no")

    with pytest.raises(BuildError, match="^no$"):
        build_once("kind", "key", "a thing", fail)
    assert not [*(cache_folder() / "kind").iterdir(), *(cache_folder() / "builds").iterdir()]


def test_two_at_once_build_one():
    started, go, built, found = threading.Event(), threading.Event(), [], []

    def slow(folder):
        built.append(folder)
        started.set()
        assert go.wait(10)

    def ask():
        found.append(build_once("kind", "key", "a thing", slow))

    threads = [threading.Thread(target=ask) for _ in range(2)]
    threads[0].start()
    assert started.wait(10)
    threads[1].start()
    go.set()
    for thread in threads:
        thread.join(10)
    assert len(built) == 1 and len(found) == 2 and found[0] == found[1]


def test_another_process_finds_what_this_one_built():
    build_once("kind", "key", "a thing", lambda folder: None)
    code = ("from compiler.native import build_once\n"
            "print(build_once('kind', 'key', 'a thing', None))")
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout.strip() == str(cache_folder() / "kind" / "key")


@pytest.mark.parametrize("damage", [lambda data: data[:1000], lambda data: b"", lambda data: (
    data.replace(b"\x2a\x00\x00\x00", b"\x2b\x00\x00\x00"))])
def test_a_damaged_object_is_not_loaded(tmp_path, damage):
    """Not even in a process that has it loaded."""
    (tmp_path / "answer.cpp").write_text('extern "C" int answer() { return 42; }\n')

    def answer() -> int:
        folder = build_once("kind", "key", None, lambda made: compile_shared(
            {tmp_path / "answer.cpp": ["-O1"]}, made / "answer.so"))
        return ctypes.CDLL(str(folder / "answer.so")).answer()

    assert answer() == 42
    path = cache_folder() / "kind" / "key" / "answer.so"
    whole = path.read_bytes()
    path.unlink()                           # what is mapped stays as it is
    path.write_bytes(damage(whole))
    assert path.read_bytes() != whole and answer() == 42 and path.read_bytes() == whole


def test_digests_tell_parts_apart():
    assert digest(["ab", "c"]) != digest(["a", "bc"]) != digest(["abc"])
    assert digest(["ab", "c"]) == digest(["ab", "c"])


def test_what_the_compiler_says_is_told(tmp_path):
    (tmp_path / "wrong.cpp").write_text("int f( { return 1; }\n")
    with pytest.raises(BuildError, match=r"^\S+ failed with status 1: .*wrong.cpp:1.*error"):
        compile_shared({tmp_path / "wrong.cpp": []}, tmp_path / "wrong.so")


@pytest.mark.skipif("g++" not in native.compiler()[1],
                    reason="other compilers read the header itself")
def test_a_precompiled_header_takes_the_place_of_its_text(tmp_path):
    header, source = tmp_path / "number.h", tmp_path / "number.cpp"
    header.write_text("inline int number() { return 7; }\n")
    native.precompile_header(header, tmp_path / "number.h.gch", ["-O1"])
    header.unlink()
    source.write_text('#include "number.h"\nextern "C" int get() { return number(); }\n')
    compile_shared({source: ()}, tmp_path / "number.so", ["-O1", f"-I{tmp_path}"])
    assert ctypes.CDLL(str(tmp_path / "number.so")).get() == 7


def test_no_compiler(monkeypatch):
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(BuildError, match="^A C[+][+] compiler must be installed to build "
                       "native code; none of no-such-compiler was found [(]CXX may name one[)]$"):
        native.compiler.__wrapped__()
