"""Chromium without a window, driven as a user would: real mouse and finger, through its debugging
pipe (``--remote-debugging-pipe``: JSON messages that end in a zero byte, on descriptors 3 and 4).
"""

import contextlib
import json
import os
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

__all__ = ["CHROMIUM", "Page", "page_of", "with_chromium"]

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
with_chromium = pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed "
                                                            "(Debian: apt install chromium)")
SECONDS = 60.0          # for an answer, and for what is waited for
_WITH_PIPE = """\
import fcntl, os, sys
given, told = (fcntl.fcntl(int(one), fcntl.F_DUPFD, 10) for one in sys.argv[1:3])
os.dup2(given, 3)
os.dup2(told, 4)
os.execv(sys.argv[3], sys.argv[3:])
"""

Point = tuple[float, float]


class Page:
    """A page that is open in Chromium."""

    def __init__(self, process: subprocess.Popen, write: int, read: int):
        self._process, self._write, self._read = process, write, read
        self._rest, self._number, self._session = b"", 0, None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target,
                                  flatten=True)["sessionId"]
        self.call("Page.enable")

    def open(self, address: str) -> None:
        self.call("Page.navigate", url=address)
        self.wait_for("document.readyState === 'complete'")

    @property
    def document(self) -> str:
        """The document as it is now, as HTML."""
        return self.value("document.documentElement.outerHTML")

    def resize(self, width: int, height: int = 1000) -> None:
        """Makes the window so large, also as narrow as a phone's."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height,
                  deviceScaleFactor=1, mobile=False)

    def close(self) -> None:
        """Ends Chromium, which then writes no more files."""
        self._session = None
        self.call("Browser.close")
        self._process.wait(SECONDS)

    def value(self, expression: str) -> Any:
        """The value of an expression of JavaScript, awaited, as plain data."""
        answer = self.call("Runtime.evaluate", expression=expression, awaitPromise=True,
                           returnByValue=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def wait_for(self, expression: str) -> Any:
        """The first value of the expression that counts as true."""
        end = time.monotonic() + SECONDS
        while not (value := self.value(expression)):
            assert time.monotonic() < end, f"{expression} is still {value!r}"
            time.sleep(0.02)
        return value

    def draw(self, points: Sequence[Point], finger: bool = False) -> None:
        """Draws a line through points of the window with the mouse, or with a finger."""
        kinds = ("mousePressed", "mouseMoved", "mouseReleased")
        if finger:
            kinds = ("touchStart", "touchMove", "touchEnd")
        self._input(kinds[0], points[0], finger)
        for point in points[1:]:
            self._input(kinds[1], point, finger)
        self._input(kinds[2], points[-1], finger)

    def _input(self, kind: str, point: Point, finger: bool) -> None:
        x, y = point
        if finger:
            touches = [] if kind == "touchEnd" else [{"x": x, "y": y}]
            self.call("Input.dispatchTouchEvent", type=kind, touchPoints=touches)
        else:
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", buttons=1,
                      clickCount=1)

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """What Chromium answers to a message of its debugging protocol."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        end = time.monotonic() + SECONDS
        while True:
            answer = self._next(end)
            if answer.get("id") == self._number:
                assert "error" not in answer, (method, answer["error"])
                return answer["result"]

    def _next(self, end: float) -> dict[str, Any]:
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._read], [], [], max(0.0, end - time.monotonic()))
            assert ready, "Chromium does not answer"
            data = os.read(self._read, 1 << 16)
            assert data, "Chromium has ended"
            self._rest += data
        message, self._rest = self._rest.split(b"\0", 1)
        return json.loads(message)


@contextlib.contextmanager
def page_of(address: str, folder: Path, size: tuple[int, int] = (1000, 1000)) -> Iterator[Page]:
    """Opens an address; `folder` takes Chromium's files. `size` is that of the window."""
    command = [str(CHROMIUM), "--headless", "--disable-gpu", "--remote-debugging-pipe",
               "--no-first-run", "--disable-background-networking", "--disable-component-update",
               "--disable-sync", f"--window-size={size[0]},{size[1]}",
               f"--user-data-dir={folder / 'profile'}",
               *(["--no-sandbox"] if os.geteuid() == 0 else [])]
    (given, write), (read, told) = os.pipe(), os.pipe()
    process = subprocess.Popen([sys.executable, "-c", _WITH_PIPE, str(given), str(told), *command],
                               pass_fds=(given, told), stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL)
    os.close(given)
    os.close(told)
    try:
        page = Page(process, write, read)
        page.open(address)
        yield page
        page.close()
    finally:
        process.kill()
        process.wait()
        os.close(write)
        os.close(read)
