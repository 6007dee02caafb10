"""Chromium: a real browser without a window, driven over a pair of pipes by its own protocol.

No driver and no port: two descriptors carry JSON, a zero byte after each message.
"""

from __future__ import annotations

import base64
import contextlib
import fcntl
import itertools
import json
import os
import shutil
import signal
import subprocess
import threading
from pathlib import Path
from types import TracebackType
from typing import Any

from gd2fs.bench.children import die_with_parent

ANSWER_S = 60.0  # of the browser, on a busy machine
STOP_S = 10.0
OPTIONS = (
    "--headless=new",
    "--no-sandbox",  # root may not have one
    "--disable-gpu",
    "--hide-scrollbars",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--no-default-browser-check",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-extensions",
    "--disable-sync",
    "--disable-features=Translate,OptimizationHints,MediaRouter",
    "--force-device-scale-factor=1",
    "--remote-debugging-pipe",
)
KEYS = {
    "Tab": 9,
    "Enter": 13,
    "Escape": 27,
    "ArrowUp": 38,
    "ArrowDown": 40,
}
SHIFT = 8
COMMANDS, ANSWERS = 3, 4  # descriptors, as the browser has them


def find_chromium() -> str | None:
    """Path of the program, or None."""
    return shutil.which("chromium") or shutil.which("chromium-browser")


class Chromium:
    """One browser. Use as a context manager."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._numbers = itertools.count(1)
        self._changed = threading.Condition()  # Guards: the three below.
        self._answers: dict[int, dict[str, Any]] = {}
        self._events: list[dict[str, Any]] = []
        self._is_over = False

    def __enter__(self) -> Chromium:
        reading, their_output = os.pipe()
        their_input, writing = os.pipe()
        their_input, their_output = _above(their_input), _above(their_output)

        def prepare() -> None:  # in the child
            die_with_parent()
            os.dup2(their_input, COMMANDS)
            os.dup2(their_output, ANSWERS)

        with open(self._directory / "chromium.log", "wb") as log:
            self._process = subprocess.Popen(
                [find_chromium() or "", *OPTIONS, f"--user-data-dir={self._directory}/profile"],
                pass_fds=(COMMANDS, ANSWERS),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=os.environ | {"HOME": str(self._directory)},
                process_group=0,
                preexec_fn=prepare,
            )
        os.close(their_input)
        os.close(their_output)
        self._writing = os.fdopen(writing, "wb", buffering=0)
        self._reader = threading.Thread(target=self._read, args=(reading,), daemon=True)
        self._reader.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with contextlib.suppress(Exception):
            self.call("Browser.close")
        try:
            self._process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        self._writing.close()
        self._reader.join(STOP_S)

    def call(self, method: str, session: str | None = None, **parameters: Any) -> dict[str, Any]:
        """Say one thing and return the answer. An error of the browser is a RuntimeError."""
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": parameters}
        if session:
            message["sessionId"] = session
        self._writing.write(json.dumps(message).encode() + b"\0")
        with self._changed:
            self._changed.wait_for(lambda: number in self._answers or self._is_over, ANSWER_S)
            answer = self._answers.pop(number, None)
        if answer is None:
            log = (self._directory / "chromium.log").read_text(errors="replace")
            raise RuntimeError(f"no answer to {method}: {log[-1500:]}")
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']['message']}")
        return answer["result"]

    def events(self, method: str, session: str) -> list[dict[str, Any]]:
        """What happened so far, of one kind, in one page."""
        with self._changed:
            return [
                each["params"]
                for each in self._events
                if each["method"] == method and each.get("sessionId") == session
            ]

    def page(self, url: str, *, width: int = 1280, height: int = 900, scheme: str = "light") -> Tab:
        """Open a page of its own: other cookies and storage than any other has."""
        context = self.call("Target.createBrowserContext")["browserContextId"]
        target = self.call("Target.createTarget", url="about:blank", browserContextId=context)
        attached = self.call("Target.attachToTarget", targetId=target["targetId"], flatten=True)
        tab = Tab(self, attached["sessionId"], context)
        for domain in ("Page", "Runtime", "Network", "Log"):
            tab.call(f"{domain}.enable")
        tab.resize(width, height)
        tab.prefer(scheme)
        tab.call("Page.navigate", url=url)
        return tab

    def _read(self, descriptor: int) -> None:
        rest = b""
        while part := os.read(descriptor, 1 << 16):
            *messages, rest = (rest + part).split(b"\0")
            with self._changed:
                for each in map(json.loads, messages):
                    if "id" in each:
                        self._answers[each["id"]] = each
                    else:
                        self._events.append(each)
                self._changed.notify_all()
        os.close(descriptor)
        with self._changed:
            self._is_over = True
            self._changed.notify_all()


def _above(descriptor: int) -> int:
    """The same under a number that takes nobody's place in the browser."""
    moved = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 10)
    os.close(descriptor)
    return moved


class Tab:
    """One page of the browser."""

    def __init__(self, browser: Chromium, session: str, context: str) -> None:
        self._browser = browser
        self._session = session
        self._context = context

    def __enter__(self) -> Tab:
        return self

    def __exit__(self, *_: object) -> None:
        self._browser.call("Target.disposeBrowserContext", browserContextId=self._context)

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """As ``Chromium.call``, in this page."""
        return self._browser.call(method, self._session, **parameters)

    def value(self, expression: str) -> Any:
        """What a JavaScript expression comes to; a promise is awaited."""
        result = self.call(
            "Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True
        )
        if "exceptionDetails" in result:
            raise RuntimeError(result["exceptionDetails"]["exception"].get("description", result))
        return result["result"].get("value")

    def wait(self, condition: str, timeout_s: float = 30.0) -> Any:
        """What ``condition`` comes to once it is true; else AssertionError with what is shown."""
        found = self.value(
            f"""new Promise((resolve) => {{
              const end = performance.now() + {timeout_s * 1000};
              const look = () => {{
                let found;
                try {{ found = ({condition}); }} catch {{ found = null; }}
                if (found || performance.now() > end) resolve(found);
                else setTimeout(look, 20);
              }};
              look();
            }})"""
        )
        assert found, f"not within {timeout_s:g} s: {condition}\nshown: {self.text('body')[:1500]}"
        return found

    def text(self, selector: str) -> str:
        """What is read there."""
        return self.value(f"document.querySelector({selector!r})?.innerText ?? ''")

    def number(self, selector: str) -> float:
        """The exact number that stands there, however it is written."""
        return float(self.value(f"document.querySelector({selector!r} + ' data').value"))

    def click(self, selector: str) -> None:
        """With the mouse, where the middle of the element is, once nothing covers or moves it."""
        x, y = self.wait(
            f"""(() => {{
              const at = document.querySelector({selector!r});
              at.scrollIntoView({{ block: "center", behavior: "instant" }});
              const box = at.getBoundingClientRect();
              const middle = [box.x + box.width / 2, box.y + box.height / 2];
              const isStill = `${{middle}}` === at.dataset.middle;
              at.dataset.middle = middle;
              return box.width && isStill && at.contains(document.elementFromPoint(...middle))
                && !at.disabled ? middle : null;
            }})()"""
        )
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def press(self, key: str, *, shift: bool = False) -> None:
        """One key, down and up."""
        code = KEYS[key]
        text = "\r" if key == "Enter" else ""
        for kind in ("keyDown" if text else "rawKeyDown", "keyUp"):
            self.call(
                "Input.dispatchKeyEvent", type=kind, key=key, code=key, text=text,
                windowsVirtualKeyCode=code, modifiers=SHIFT if shift else 0,
            )  # fmt: skip

    def type(self, selector: str, text: str) -> None:
        """Into a field, in place of what is there."""
        self.value(f"(document.querySelector({selector!r}).focus(), "
                   f"document.querySelector({selector!r}).select())")  # fmt: skip
        self.call("Input.insertText", text=text)

    def resize(self, width: int, height: int) -> None:
        """As a screen of that size."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=height, deviceScaleFactor=1, mobile=False,
        )  # fmt: skip

    def prefer(self, scheme: str) -> None:
        """``light`` or ``dark``, without motion."""
        features = [
            {"name": "prefers-color-scheme", "value": scheme},
            {"name": "prefers-reduced-motion", "value": "reduce"},
        ]
        self.call("Emulation.setEmulatedMedia", features=features)

    def screenshot(self, path: Path, *, is_whole: bool = False) -> None:
        """As PNG; the whole page with ``is_whole``, else what is seen."""
        path.parent.mkdir(parents=True, exist_ok=True)
        taken = self.call("Page.captureScreenshot", captureBeyondViewport=is_whole)
        path.write_bytes(base64.b64decode(taken["data"]))

    @property
    def requests(self) -> list[str]:
        """URLs of all requests so far."""
        events = self._browser.events("Network.requestWillBeSent", self._session)
        return [each["request"]["url"] for each in events]

    @property
    def complaints(self) -> list[str]:
        """Errors of scripts and of the policy so far."""
        thrown = self._browser.events("Runtime.exceptionThrown", self._session)
        logged = self._browser.events("Log.entryAdded", self._session)
        texts = [each["exceptionDetails"]["text"] for each in thrown]
        return texts + [
            f"{each['entry']['text']} {each['entry'].get('url', '')}"
            for each in logged
            if each["entry"]["level"] == "error"
        ]
