"""Pages of reports in Chromium: opened once, looked at by several tests."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support import chromium

__all__ = ["drawn", "on_a_phone"]

WIDTH = 1000
_DRAWN = "document.documentElement.dataset.state"


@contextmanager
def drawn(page: Path, folder: Path) -> Iterator[chromium.Page]:
    """A page after its scripts have run; `folder` takes Chromium's files."""
    with chromium.page_of(page.as_uri(), folder, (WIDTH, 1000)) as shown:
        shown.wait_for(_DRAWN)
        yield shown


def on_a_phone(page: Path, shown: chromium.Page, width: int, told: str) -> Any:
    """What the expression `told` gives where the page is opened in a window of a phone's width."""
    try:
        _again(page, shown, width)
        return shown.value(told)
    finally:
        _again(page, shown, WIDTH)


def _again(page: Path, shown: chromium.Page, width: int) -> None:
    shown.resize(width)
    shown.open(page.as_uri())
    shown.wait_for(_DRAWN)
