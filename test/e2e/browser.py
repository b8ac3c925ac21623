"""A browser without a window, for tests of pages: Chromium's protocol over two pipes, with nothing but Python's library."""
import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

NAMES = ("chromium-headless-shell", "chromium", "google-chrome")


class PageError(Exception):
    pass


def find():
    """The browser's path, or None."""
    return next((p for p in map(shutil.which, NAMES) if p), None)


class Browser:
    """One page at a time; what it writes to the console or fails in is kept in `messages`, what it asks for in `requests`."""

    def __init__(self, width=1400, height=850, seconds=180):
        self.seconds, self.serial, self.session, self.rest = seconds, 0, None, b""
        self.messages, self.requests, self.seen = [], [], set()
        self.profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)  # helpers of the browser may still write
        to_browser, self.out = os.pipe()
        self.inp, from_browser = os.pipe()

        def wire():  # the browser reads descriptor 3 and writes 4
            a, b = os.dup(to_browser), os.dup(from_browser)
            os.dup2(a, 3)
            os.dup2(b, 4)

        words = [find(), "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run", "--disable-extensions", "--disable-background-networking",
                 f"--user-data-dir={self.profile.name}", f"--window-size={width},{height}", "--remote-debugging-pipe", "about:blank"]
        self.process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, preexec_fn=wire, close_fds=False)
        os.close(to_browser)
        os.close(from_browser)
        target = next(t for t in self.call("Target.getTargets")["targetInfos"] if t["type"] == "page")
        self.session = self.call("Target.attachToTarget", targetId=target["targetId"], flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        os.close(self.out)
        os.close(self.inp)
        self.profile.cleanup()

    def receive(self, until):
        """The next message; events are noted."""
        while b"\0" not in self.rest:
            if not select.select([self.inp], [], [], max(0, until - time.time()))[0]:
                raise PageError(f"the browser says nothing for {self.seconds} s")
            more = os.read(self.inp, 1 << 20)
            if not more:
                raise PageError("the browser has ended")
            self.rest += more
        line, self.rest = self.rest.split(b"\0", 1)
        message = json.loads(line)
        kind, p = message.get("method"), message.get("params", {})
        self.seen.add(kind)
        if kind == "Runtime.exceptionThrown":
            self.messages.append(p["exceptionDetails"].get("exception", {}).get("description") or p["exceptionDetails"]["text"])
        elif kind == "Log.entryAdded":
            self.messages.append(p["entry"]["text"])
        elif kind == "Runtime.consoleAPICalled":
            self.messages.append(" ".join(str(a.get("value")) for a in p["args"]))
        elif kind == "Network.requestWillBeSent":
            self.requests.append(p["request"]["url"])
        return message

    def call(self, method, **params):
        self.serial += 1
        message = {"id": self.serial, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self.out, data):]
        until = time.time() + self.seconds
        while True:
            answer = self.receive(until)
            if answer.get("id") == self.serial:
                if "error" in answer:
                    raise PageError(f"{method}: {answer['error']['message']}")
                return answer["result"]

    def open(self, path, dark=False):
        """Loads a file; the seconds until its load event."""
        self.messages, self.requests = [], []
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
        self.seen.discard("Page.loadEventFired")
        start = time.time()
        self.call("Page.navigate", url="file://" + os.path.abspath(path))
        while "Page.loadEventFired" not in self.seen:
            self.receive(start + self.seconds)
        return time.time() - start

    def evaluate(self, script):
        """The value of an expression, awaited."""
        r = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in r:
            raise PageError(r["exceptionDetails"].get("exception", {}).get("description") or r["exceptionDetails"]["text"])
        return r["result"].get("value")

    def key(self, key, modifiers=0, text=None):
        text = key if text is None and len(key) == 1 else text
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, modifiers=modifiers, **({"text": text} if text else {}))
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key, modifiers=modifiers)

    def mouse(self, kind, x, y, **more):
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def click(self, x, y):
        for kind in ("mousePressed", "mouseReleased"):
            self.mouse(kind, x, y, button="left", clickCount=1)

    def screenshot(self, path):
        with open(path, "wb") as f:
            f.write(base64.b64decode(self.call("Page.captureScreenshot")["data"]))
