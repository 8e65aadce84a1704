"""Folders of pools: gone with their process, or with the next pool."""

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from runtime.tuning.scratch import PREFIX, pool_folder

HELD = ("from runtime.tuning.scratch import pool_folder\n"
        "with pool_folder() as folder:\n    print(folder, flush=True)\n    input()\n")


@pytest.fixture
def place(tmp_path: Path, monkeypatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    return tmp_path


def test_a_folder_is_there_while_it_is_held(place: Path) -> None:
    with pool_folder() as folder:
        (folder / "inner").mkdir()
        with pool_folder() as other:
            assert {*place.iterdir()} == {folder, other}
        assert [*place.iterdir()] == [folder]
    assert not [*place.iterdir()]


def test_what_a_killed_process_leaves_is_removed_by_the_next(place: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", HELD], stdin=subprocess.PIPE, text=True,
                          stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        left = Path(process.stdout.readline().strip())
        (left / "deep").mkdir()
        with pool_folder():
            assert left.is_dir()                # its process lives
        process.send_signal(signal.SIGKILL)
    assert left.is_dir()
    (place / f"{PREFIX}made-just-now").mkdir()
    (place / "another").mkdir()
    with pool_folder() as folder:
        assert {*place.iterdir()} == {folder, place / f"{PREFIX}made-just-now", place / "another"}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to other users")
def test_what_another_user_put_there_is_left_alone(place: Path) -> None:
    for name in ("left", "pipe"):
        (place / f"{PREFIX}{name}").mkdir()
    (place / f"{PREFIX}left" / "lock").touch()
    os.mkfifo(place / f"{PREFIX}pipe" / "lock")     # it would be waited for
    for folder in place.iterdir():
        os.chown(folder, 65534, -1)
    with pool_folder():
        assert len([*place.iterdir()]) == 3
