"""A terminal so wide that nothing is wrapped: tests look for sentences, test_lines.py for lines."""

import pytest


@pytest.fixture(autouse=True)
def wide_terminal(monkeypatch) -> None:
    monkeypatch.setenv("COLUMNS", "1000")
