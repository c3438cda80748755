"""Chromium that a test drives as a person would: by its keyboard, at the width of a desktop or of a phone.

It speaks the DevTools protocol over two pipes, JSON with a zero byte at the end of each message, so that nothing has to be
installed for it.
"""

from __future__ import annotations

import base64
import json
import os
import selectors
import subprocess
import time

from machine import CHROMIUM

KEYS = {"Enter": ("\r", 13), "Tab": ("", 9), "Escape": ("", 27), "ArrowDown": ("", 40), "ArrowUp": ("", 38)}
PATIENCE = 60  # seconds until a busy machine counts as a broken one


class Browser:
    """A window with one page. What the page throws, and what the console says that is wrong, is collected in ``said``."""

    def __init__(self, profile, width=1280, height=900, mobile=False):
        (self._read, out), (into, self._write) = os.pipe(), os.pipe()
        options = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"]
        command = [CHROMIUM, *options, f"--user-data-dir={profile}", "--remote-debugging-pipe", "about:blank"]

        def pipes():  # Chromium reads from 3 and writes to 4
            a, b = os.dup(into), os.dup(out)
            high_a, high_b = (fd if fd > 4 else os.dup(fd) for fd in (a, b))
            os.dup2(high_a, 3)
            os.dup2(high_b, 4)

        self.process = subprocess.Popen(
            command, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL, close_fds=False, preexec_fn=pipes
        )
        os.close(into)
        os.close(out)
        self._buffer, self._next, self.said = b"", 0, []
        target = self._call("Target.createTarget", {"url": "about:blank"})["targetId"]
        self.session = None
        self.session = self._call("Target.attachToTarget", {"targetId": target, "flatten": True})["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self._call(f"{domain}.enable")
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": mobile}
        self._call("Emulation.setDeviceMetricsOverride", size)

    def __enter__(self):
        return self

    def __exit__(self, *ignored):
        self.process.kill()
        self.process.wait()
        os.close(self._read)
        os.close(self._write)

    session = None

    def open(self, url):
        self._call("Page.navigate", {"url": url})

    def js(self, expression):
        """The value of an expression."""
        found = self._call("Runtime.evaluate", {"expression": expression, "returnByValue": True, "awaitPromise": True})
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def wait(self, expression):
        """Until an expression holds."""
        end = time.monotonic() + PATIENCE
        while not (found := self.js(expression)):
            assert time.monotonic() < end, f"never: {expression}"
            time.sleep(0.02)
        return found

    def press(self, key):
        text, code = KEYS[key]
        same = {"key": key, "code": key, "windowsVirtualKeyCode": code}
        self._call("Input.dispatchKeyEvent", {"type": "keyDown", "text": text} | same)
        self._call("Input.dispatchKeyEvent", {"type": "keyUp"} | same)

    def write(self, text):
        self._call("Input.insertText", {"text": text})

    def picture(self):
        """The whole page as a PNG."""
        return base64.b64decode(self._call("Page.captureScreenshot", {"captureBeyondViewport": True})["data"])

    def dark(self):
        self._call("Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": "dark"}]})

    def _call(self, method, parameters=None):
        self._next += 1
        message = {"id": self._next, "method": method, "params": parameters or {}}
        if self.session is not None:
            message["sessionId"] = self.session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            found = self._message()
            if found.get("id") == self._next:
                assert "error" not in found, (method, found)
                return found["result"]
            self._note(found)

    def _note(self, event):
        parameters = event.get("params", {})
        if event.get("method") == "Runtime.exceptionThrown":
            self.said.append(str(parameters["exceptionDetails"]))
        elif event.get("method") == "Log.entryAdded" and parameters["entry"]["level"] in ("error", "warning"):
            self.said.append(parameters["entry"]["text"])

    def _message(self):
        while b"\0" not in self._buffer:
            with selectors.DefaultSelector() as waiting:
                waiting.register(self._read, selectors.EVENT_READ)
                assert waiting.select(PATIENCE), "the browser does not answer"
            part = os.read(self._read, 1 << 20)
            assert part, "the browser is gone"
            self._buffer += part
        message, _, self._buffer = self._buffer.partition(b"\0")
        return json.loads(message)
