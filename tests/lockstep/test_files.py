"""Files appear whole."""

from pathlib import Path

import pytest

from compiler.errors import RequestError
from lockstep.files import whole_file


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


def test_what_cannot_be_written_is_a_wrong_request(tmp_path) -> None:
    path = tmp_path / "none" / "x"
    with pytest.raises(RequestError) as refusal, whole_file(path):
        pass
    assert str(refusal.value) == f"{str(path)!r} cannot be written: No such file or directory"


def test_a_device_stays_a_device() -> None:
    with whole_file(Path("/dev/null")) as file:
        file.write(b"x")
    assert Path("/dev/null").is_char_device()
