"""Simulators of a test's own machine run few programs, so how soon they are compiled counts more
than how fast they are."""

from types import ModuleType

import pytest

__all__ = ["unoptimized"]


def unoptimized(monkeypatch: pytest.MonkeyPatch, *simulators: ModuleType) -> None:
    """What these modules build is compiled in a third of the time, and some times slower."""
    for module in simulators:
        optimized, *others = module._FLAGS
        assert optimized in ("-O1", "-O2", "-O3")
        monkeypatch.setattr(module, "_FLAGS", ("-O0", *others))
