"""The page in Debian's Chromium, with everything but the loopback address out of reach."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

# Chromium says this of every answer that is no success; the page shows the sentence of it.
_REFUSED = "Failed to load resource: the server responded with a status of 4"
_DROP = """([name, text]) => {
  const data = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const dropped = new DataTransfer();
  dropped.items.add(new File([data], name));
  window.dispatchEvent(new DragEvent('drop', { dataTransfer: dropped, bubbles: true, cancelable: true }));
}"""


class Visit:
    """One tab of the browser on the page; what it asks for and complains of is kept."""

    def __init__(self, page: Any, base: str) -> None:
        self.page = page
        self.base = base
        self.complaints: list[str] = []
        self.abroad: list[str] = []
        self.posted: list[int] = []
        page.on("console", self._console)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("request", self._request)
        page.route(lambda address: not address.startswith(base), self._block)

    def _console(self, message: Any) -> None:
        if message.type in ("error", "warning") and not message.text.startswith(_REFUSED):
            self.complaints.append(message.text)

    def _request(self, request: Any) -> None:
        if request.method == "POST" and request.url.startswith(self.base):
            self.posted.append(int(request.headers.get("content-length") or 0) or _length(request))

    def _block(self, route: Any) -> None:
        self.abroad.append(route.request.url)
        route.abort()

    def open(self, address: str = "") -> Visit:
        """Open the page, and wait until it has answered."""
        self.page.goto(address if address.startswith("http") else f"{self.base}/{address}")
        self.page.wait_for_selector("html[data-ready]")
        return self

    def total(self, expected: int) -> None:
        """Wait until the page shows a total."""
        found = self.page.locator("#total")
        want = f"{expected:,}"
        self.page.wait_for_function("want => document.getElementById('total').textContent === want", arg=want)
        assert found.text_content() == want

    def choose(self, name: str) -> None:
        """Type the name of a preset and press Enter."""
        self.page.fill("#model", name)
        self.page.press("#model", "Enter")

    def drop(self, name: str, data: bytes) -> None:
        """Drop a file on the page."""
        self.page.evaluate(_DROP, [name, base64.b64encode(data).decode()])

    def copied(self, kind: str) -> str:
        """What the menu copies."""
        self.page.click("#share summary")
        self.page.click(f"[data-copy={kind}]")
        self.page.wait_for_selector("#share:not([open])", state="attached")
        text: str = self.page.evaluate("navigator.clipboard.readText()")
        return text


def _length(request: Any) -> int:
    try:
        return len(request.post_data_buffer or b"")
    except Exception:
        return 0


Open = Callable[..., Visit]
LLAMA = {"model_type": "llama", "hidden_size": 2048, "intermediate_size": 5632, "num_hidden_layers": 22}


def number(sizer_cli: Callable[..., tuple[int, str, str]], *words: str) -> int:
    """What the command line counts."""
    code, out, err = sizer_cli("count", *words, "-q")
    assert code == 0, err
    return int(out)


@contextmanager
def browser(executable: str) -> Iterator[Any]:
    """The browser."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=executable, args=["--no-sandbox"])
        yield found
        found.close()


@contextmanager
def visits(found: Any, base: str) -> Iterator[Open]:
    """Open tabs; at the end none may have complained, or asked for anything elsewhere."""
    contexts: list[Any] = []
    opened: list[Visit] = []

    def begin(**options: Any) -> Visit:
        options = {"viewport": {"width": 1280, "height": 900}, "locale": "en-US", **options}
        context = found.new_context(**options)
        context.set_default_timeout(60_000)
        context.grant_permissions(["clipboard-read", "clipboard-write"], origin=base)
        contexts.append(context)
        opened.append(Visit(context.new_page(), base))
        return opened[-1]

    yield begin
    for context in contexts:
        context.close()
    complaints = [line for each in opened for line in each.complaints]
    abroad = [address for each in opened for address in each.abroad]
    # This is no file of tests, where pytest would show the two sides.
    assert (complaints, abroad) == ([], []), f"complaints: {complaints}; asked elsewhere: {abroad}"
