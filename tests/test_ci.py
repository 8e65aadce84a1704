"""`.ci/install`: quick where everything is there, quiet, and never a reason to fail."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SCRIPT = ROOT / ".ci" / "install"
(LIST,) = re.findall(r"^packages=\((.*)\)$", SCRIPT.read_text(), re.MULTILINE)
PACKAGES = LIST.split()


@pytest.fixture
def run(tmp_path):
    """Runs the script where these commands alone are there, as shell text; gives what it says, and
    how apt-get was called.
    """
    def run(**commands: str) -> tuple[str, list[str]]:
        log = tmp_path / "apt.log"
        for name, body in {"id": "echo 0", "timeout": 'shift 3; exec "$@"', **commands}.items():
            command = tmp_path / name
            command.write_text(f"#!/bin/sh\n{body}\n".replace("LOG", str(log)))
            command.chmod(0o755)
        done = subprocess.run([shutil.which("bash") or "bash", SCRIPT], capture_output=True,
                              text=True, env=os.environ | {"PATH": str(tmp_path)}, timeout=30)
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout, log.read_text().splitlines() if log.exists() else []

    return run


APT = 'echo "$DEBIAN_FRONTEND $@" >> LOG'
THERE = 'echo "install ok installed"'


def test_nothing_is_done_where_all_is_there(run) -> None:
    assert run(**{"apt-get": APT, "dpkg-query": THERE}) == ("", [])


def test_nothing_is_done_without_rights(run) -> None:
    assert run(**{"apt-get": APT, "dpkg-query": "exit 1", "id": "echo 1000"}) == ("", [])


def test_nothing_is_done_without_apt(run) -> None:
    assert run(**{"dpkg-query": "exit 1"}) == ("", [])


def test_what_is_missing_is_installed(run) -> None:
    """tcl was removed and left its configuration."""
    asked = f'[ "$4" = tcl ] && echo "deinstall ok config-files" || {THERE}'
    said, (update, install) = run(**{"apt-get": f"{APT}; echo noise; echo more >&2",
                                     "dpkg-query": asked})
    assert said == "" and update.split()[-1] == "update"
    assert install.startswith("noninteractive -qq ")
    assert install.endswith(" install --yes --no-install-recommends tcl")


def test_an_installation_that_fails_is_one_line(run) -> None:
    said, calls = run(**{"apt-get": f"{APT}; exit 100", "dpkg-query": "exit 1"})
    assert said == f"not installed: {LIST} (the tests that need them skip)\n" and len(calls) == 2


def test_the_page_names_every_package() -> None:
    page = (ROOT / "docs" / "testing.md").read_text()
    assert set(PACKAGES) <= set(re.findall(r"`([a-z0-9-]+)`", page))
