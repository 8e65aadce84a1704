"""`lockstep --version`, and the names that `dir(lockstep)` offers."""

from importlib.metadata import version

import lockstep
from lockstep import cli


def test_the_version_is_that_of_the_package(capsys) -> None:
    assert cli.main(["--version"]) == 0
    assert capsys.readouterr().out == f"lockstep {version('lockstep-hw')}\n"
    assert lockstep.__version__ == version("lockstep-hw")


def test_dir_offers_what_can_be_had() -> None:
    assert {*lockstep.__all__, "testing", "__version__"} == set(dir(lockstep))
    assert all(hasattr(lockstep, name) for name in dir(lockstep))
