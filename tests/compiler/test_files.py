"""Files appear whole, one at a time, where their name leads."""

import os
import stat
import subprocess
import sys
import threading
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from compiler.errors import RequestError
from compiler.files import FileError, require_writable, whole_file, write_bytes, write_text


def test_a_file_takes_its_place_at_the_end(tmp_path) -> None:
    path = tmp_path / "x"
    path.write_text("before")
    with whole_file(path) as file:
        file.write(b"after")
        assert path.read_text() == "before"
    assert path.read_text() == "after" and list(tmp_path.iterdir()) == [path]


def test_a_failure_leaves_what_was_there(tmp_path) -> None:
    path = tmp_path / "x"
    path.write_text("before")
    with pytest.raises(KeyboardInterrupt), whole_file(path) as file:
        file.write(b"after")
        raise KeyboardInterrupt
    assert path.read_text() == "before" and list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(("name", "reason"), [
    ("none/x", "No such file or directory"),
    ("n" * 256, "File name too long"),
    ("x\0y", "embedded null byte"),
    (".", "Is a directory"),
])
@pytest.mark.parametrize("write", [lambda path: write_bytes(path, b""), require_writable])
def test_what_cannot_be_written_is_a_wrong_request(tmp_path, name: str, reason: str, write) -> None:
    path = f"{tmp_path}/{name}"
    with pytest.raises(FileError) as refusal:
        write(path)
    assert str(refusal.value) == f"{path!r} cannot be written: {reason}"
    assert isinstance(refusal.value, RequestError) and isinstance(refusal.value, OSError)
    assert list(tmp_path.iterdir()) == []


def test_a_name_as_long_as_they_may_be(tmp_path) -> None:
    path = tmp_path / ("n" * 255)
    write_text(path, "ä")
    assert path.read_bytes() == b"\xc3\xa4" and list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("present", [True, False])
def test_a_link_stays_and_its_target_is_replaced(tmp_path, present: bool) -> None:
    (tmp_path / "far").mkdir()
    target, first, second = tmp_path / "far" / "x", tmp_path / "far" / "link", tmp_path / "link"
    first.symlink_to("x")
    second.symlink_to(Path("far", "link"))
    if present:
        target.write_text("before")
    write_text(second, "after")
    assert first.is_symlink() and second.is_symlink() and not target.is_symlink()
    assert target.read_text() == "after"
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["far", "link", "link", "x"]


def test_a_ring_of_links_is_refused(tmp_path) -> None:
    path = tmp_path / "a"
    path.symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(FileError) as refusal:
        write_text(path, "x")
    assert str(refusal.value) == (f"{str(path)!r} cannot be written: "
                                  f"Too many levels of symbolic links")
    assert path.is_symlink()


@pytest.mark.parametrize("mode", [0o600, 0o755, 0o664])
def test_a_file_keeps_its_mode(tmp_path, mode: int) -> None:
    path = tmp_path / "x"
    path.touch()
    path.chmod(mode)
    write_text(path, "x")
    assert stat.S_IMODE(path.stat().st_mode) == mode


@pytest.mark.parametrize("mask", [0o022, 0o077, 0o002])
def test_a_new_file_has_the_mode_of_the_umask(tmp_path, mask: int) -> None:
    before = os.umask(mask)
    try:
        write_text(tmp_path / "x", "x")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "x").stat().st_mode) == 0o666 & ~mask


def test_a_file_that_may_not_be_written_stays(tmp_path, monkeypatch) -> None:
    path = tmp_path / "x"
    path.write_text("before")
    monkeypatch.setattr("os.access", lambda path, mode: mode != os.W_OK)    # root may write all
    with pytest.raises(FileError) as refusal:
        write_text(path, "after")
    assert str(refusal.value) == f"{str(path)!r} cannot be written: Permission denied"
    assert path.read_text() == "before"


def test_threads_that_write_one_path_do_not_meet(tmp_path) -> None:
    path, meeting = tmp_path / "x", threading.Barrier(8)

    def write(number: int) -> None:
        with whole_file(path) as file:
            file.write(bytes([number]) * 1000)
            meeting.wait(60)
            file.write(bytes([number]) * 1000)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(write, range(8)))
    data = path.read_bytes()
    assert data == data[:1] * 2000 and list(tmp_path.iterdir()) == [path]


def test_devices_stay_devices(tmp_path) -> None:
    link = tmp_path / "null"
    link.symlink_to("/dev/null")
    for path in (Path("/dev/null"), link):
        write_bytes(path, b"x")
        assert path.is_char_device()
    assert link.is_symlink()


def test_a_full_device_is_said_and_stays() -> None:
    with pytest.raises(FileError) as refusal:
        write_bytes("/dev/full", b"x")
    assert str(refusal.value) == "'/dev/full' cannot be written: No space left on device"
    assert Path("/dev/full").is_char_device()


def test_a_pipe_is_written_through(tmp_path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    require_writable(path)
    with ThreadPoolExecutor(1) as pool:
        read = pool.submit(path.read_bytes)
        write_bytes(path, b"x" * 100_000)
        assert read.result(60) == b"x" * 100_000
    assert path.is_fifo()


@pytest.mark.parametrize("name", ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"])
def test_what_goes_to_the_output_stands_in_its_order(tmp_path, name: str) -> None:
    """Also where the output is a file that is appended to."""
    path = tmp_path / "out"
    path.write_text("1")
    code = (f"from compiler.files import require_writable, write_text\n"
            f"print('2', end='', flush=True)\nrequire_writable({name!r})\n"
            f"write_text({name!r}, '3')\nprint('4', end='')")
    with path.open("ab") as file:
        subprocess.run([sys.executable, "-c", code], check=True, stdout=file)
    assert path.read_text() == "1234" and list(tmp_path.iterdir()) == [path]


def test_an_archive_goes_to_the_output_in_one_stream(tmp_path) -> None:
    """zipfile goes back to fill in sizes where it can; what is appended to has no way back."""
    path = tmp_path / "out"
    code = ("import zipfile\nfrom compiler.files import whole_file\n"
            "with whole_file('/dev/stdout') as file, zipfile.ZipFile(file, 'w') as archive:\n"
            "    archive.open('x', 'w').write(b'y' * 10)")
    with path.open("ab") as file:
        subprocess.run([sys.executable, "-c", code], check=True, stdout=file)
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None and archive.read("x") == b"y" * 10


def test_an_end_by_a_signal_leaves_nothing(tmp_path) -> None:
    code = (f"from compiler.files import whole_file\nfrom compiler.processes import end\n"
            f"with whole_file({str(tmp_path / 'x')!r}) as file:\n    end(143)")
    done = subprocess.run([sys.executable, "-c", code])
    assert done.returncode == 143 and not list(tmp_path.iterdir())


def test_what_a_killed_process_was_writing_goes(tmp_path) -> None:
    code = (f"import os, signal\nfrom compiler.files import whole_file\n"
            f"with whole_file({str(tmp_path / 'x')!r}):\n"
            f"    os.kill(os.getpid(), signal.SIGKILL)")
    assert subprocess.run([sys.executable, "-c", code]).returncode == -9
    assert len(list(tmp_path.iterdir())) == 1
    with whole_file(tmp_path / "y"):
        write_text(tmp_path / "z", "")          # which leaves alone what is being written
        assert len(list(tmp_path.iterdir())) == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["y", "z"]
