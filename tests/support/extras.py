"""Packages that extras install, without which some tests are skipped."""

from importlib.util import find_spec

import pytest

__all__ = ["needs"]


def needs(package: str, extra: str) -> pytest.MarkDecorator:
    """The mark of tests that need a package. It is looked for and not imported: every process of
    the suite reads all tests, and runs few of them.
    """
    return pytest.mark.skipif(find_spec(package) is None, reason=extra)
