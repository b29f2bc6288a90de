"""Headless Chromium, driven through its DevTools pipe: no driver to match, no port, no package beyond Python's own."""

from __future__ import annotations

import base64
import contextlib
import fcntl
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome")
DEADLINE_S = 60.0
# Chromium reads its commands from descriptor 3 and answers on 4; this puts our pipes there.
_LAUNCH = (
    "import os, sys; os.dup2(int(sys.argv[1]), 3); os.dup2(int(sys.argv[2]), 4); os.execv(sys.argv[3], sys.argv[3:])"
)


def chromium() -> str | None:
    """Where Chromium is, if it is installed."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


class Browser:
    """One page in a fresh profile. Its console messages and its requests are kept."""

    def __init__(self, profile: Path) -> None:
        self._number = 0
        self._buffer = b""
        self._session = ""
        self.complaints: list[str] = []  # warnings and errors of the console, and uncaught exceptions
        self.requests: list[str] = []
        path = chromium()
        assert path is not None
        theirs_in, self._commands = os.pipe()
        self._answers, theirs_out = os.pipe()
        # Numbers above 9 cannot be in the way of 3 and 4.
        ends = [fcntl.fcntl(end, fcntl.F_DUPFD, 10) for end in (theirs_in, theirs_out)]
        flags = [
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--disable-dev-shm-usage",
            "--remote-debugging-pipe",
        ]
        self._process = subprocess.Popen(
            [sys.executable, "-c", _LAUNCH, *map(str, ends), path, *flags, f"--user-data-dir={profile}", "about:blank"],
            pass_fds=ends,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        for end in (theirs_in, theirs_out, *ends):
            os.close(end)

    def __enter__(self) -> Browser:
        try:
            target = self.send("Target.createTarget", url="about:blank")["targetId"]
            self._session = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
            for domain in ("Page", "Runtime", "Log", "Network"):
                self.send(f"{domain}.enable")
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Ends Chromium and its helpers, which are in a process group of their own."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError, subprocess.TimeoutExpired):
                os.killpg(self._process.pid, number)
                self._process.wait(10)
        os.close(self._commands)
        os.close(self._answers)

    def send(self, method: str, **parameters: Any) -> dict[str, Any]:
        """The answer to one command."""
        self._number += 1
        number = self._number
        command: dict[str, Any] = {"id": number, "method": method, "params": parameters}
        if self._session:
            command["sessionId"] = self._session
        os.write(self._commands, json.dumps(command).encode() + b"\0")
        while True:
            message = self._next()
            if message.get("id") == number:
                assert "error" not in message, f"{method}: {message['error']}"
                result: dict[str, Any] = message["result"]
                return result
            self._keep(message)

    def _next(self) -> dict[str, Any]:
        deadline = time.monotonic() + DEADLINE_S
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._answers], [], [], max(deadline - time.monotonic(), 0))
            assert ready, "Chromium does not answer"
            received = os.read(self._answers, 1 << 16)
            assert received, "Chromium ended"
            self._buffer += received
        line, self._buffer = self._buffer.split(b"\0", 1)
        message: dict[str, Any] = json.loads(line)
        return message

    def _keep(self, message: dict[str, Any]) -> None:
        details = message.get("params", {})
        match message.get("method"):
            case "Runtime.exceptionThrown":
                self.complaints.append(str(details["exceptionDetails"]))
            case "Runtime.consoleAPICalled" if details["type"] in ("error", "warning", "assert"):
                self.complaints.append(str(details["args"]))
            case "Log.entryAdded" if details["entry"]["level"] in ("error", "warning"):
                self.complaints.append(str(details["entry"]))
            case "Network.requestWillBeSent":
                url = details["request"]["url"]
                if not url.startswith("data:"):  # a picture inside the page is no request
                    self.requests.append(url)

    def open(self, path: Path) -> None:
        """Shows a file, and waits until it is loaded and painted once."""
        self.send("Page.navigate", url=path.resolve().as_uri())
        self.until("document.readyState === 'complete' && location.protocol === 'file:'")
        self.settle()

    def visit(self, url: str) -> None:
        """Shows a page of a service, and waits until it is loaded and painted once."""
        self.send("Page.navigate", url="about:blank")  # else a page that differs only behind the # would stay
        self.until("location.href === 'about:blank'")
        self.send("Page.navigate", url=url)
        self.until("document.readyState === 'complete' && location.protocol.startsWith('http')")
        self.settle()

    def run(self, script: str) -> Any:
        """The value of an expression in the page; promises are awaited."""
        answer = self.send("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def until(self, script: str) -> None:
        """Waits until an expression is true."""
        deadline = time.monotonic() + DEADLINE_S
        while not self.run(script):
            assert time.monotonic() < deadline, f"never true: {script}"
            time.sleep(0.02)

    def settle(self) -> None:
        """Waits for two frames, after which what was asked for is drawn."""
        self.run("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))")

    def place(self, script: str) -> tuple[float, float, float, float]:
        """Left, top, width and height of an element, scrolled into view."""
        self.run(f"({script}).scrollIntoView({{block: 'center', behavior: 'instant'}})")
        self.settle()
        left, top, width, height = self.run(f"(r => [r.x, r.y, r.width, r.height])(({script}).getBoundingClientRect())")
        return left, top, width, height

    def click(self, script: str, *, shift: bool = False) -> None:
        """A click with the mouse in the middle of an element."""
        left, top, width, height = self.place(script)
        for kind in ("mousePressed", "mouseReleased"):
            self.mouse(kind, left + width / 2, top + height / 2, modifiers=8 if shift else 0)
        self.settle()

    def mouse(self, kind: str, x: float, y: float, *, clicks: int = 1, modifiers: int = 0) -> None:
        """One event of the mouse."""
        button = {} if kind == "mouseMoved" else {"button": "left", "clickCount": clicks}
        self.send("Input.dispatchMouseEvent", type=kind, x=x, y=y, modifiers=modifiers, **button)

    def key(self, key: str, code: int, text: str = "") -> None:
        """One key, pressed and released."""
        for kind in ("keyDown", "keyUp"):
            extra = {"text": text} if text and kind == "keyDown" else {}
            self.send("Input.dispatchKeyEvent", type=kind, key=key, windowsVirtualKeyCode=code, **extra)
        self.settle()

    def picture(
        self, path: Path, *, width: int = 1280, height: int = 900, dark: bool = False, whole: bool = True
    ) -> None:
        """A screenshot of the page, whole or as the window shows it."""
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.send("Emulation.setEmulatedMedia", features=[scheme])
        self.send("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.settle()
        answer = self.send("Page.captureScreenshot", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(answer["data"]))
