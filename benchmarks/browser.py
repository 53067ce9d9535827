"""The page in Chromium: the first useful paint, the bytes it is made of, an update while typing."""

from __future__ import annotations

import shutil
import statistics
from typing import Any

PAINT_MS, UPDATE_MS, PAGE_BYTES = 500, 30, 300_000
VISITS, UPDATES = 7, 60

# The first frame that shows the total; a message is handled after the frame before it.
FIRST = """
const seen = new MutationObserver(() => {
  const total = document.getElementById('total');
  if (!total || !/\\d/.test(total.textContent)) return;
  seen.disconnect();
  requestAnimationFrame(() => {
    const after = new MessageChannel();
    after.port1.onmessage = () => { window.usefulPaint = performance.now(); };
    after.port2.postMessage(0);
  });
});
seen.observe(document, {childList: true, subtree: true, characterData: true});
"""
# From a key in the field of the layers until the new total stands there, and until a frame shows it.
# No size is asked for twice, so each is worked out.
TYPE = """async ([from, count]) => {
  const field = document.getElementById('size-n_layers');
  const total = document.getElementById('total');
  const times = {there: [], painted: []};
  for (let size = from; size < from + count; size++) {
    await new Promise((done) => {
      const begun = performance.now();
      const seen = new MutationObserver(() => {
        seen.disconnect();
        times.there.push(performance.now() - begun);
        requestAnimationFrame(() => {
          const after = new MessageChannel();
          after.port1.onmessage = () => { times.painted.push(performance.now() - begun); done(); };
          after.port2.postMessage(0);
        });
      });
      seen.observe(total, {childList: true, characterData: true, subtree: true});
      field.focus();
      field.value = String(size);
      field.dispatchEvent(new Event('input', {bubbles: true}));
    });
    await new Promise((done) => setTimeout(done, 50));
  }
  return times;
}"""
# What came over the wire, without the answers of the service.
SENT = """() => [...performance.getEntriesByType('navigation'), ...performance.getEntriesByType('resource')]
  .filter((entry) => !entry.name.includes('/v1/')).map((entry) => [entry.name, entry.encodedBodySize])"""


def measure(base: str) -> None:
    """Open the page at an address and print the three figures beside their bounds."""
    executable = shutil.which("chromium")
    if executable is None:
        raise SystemExit("the figures of the page need chromium (Debian: apt-get install chromium)")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, args=["--no-sandbox"])
        paints = [_first_paint(browser, base) for _ in range(VISITS)]
        line("the page's first useful paint", statistics.median(paints), PAINT_MS, "ms", max(paints))
        page = browser.new_page()
        page.goto(base)
        page.wait_for_selector("html[data-ready]")
        times = page.evaluate(TYPE, [33, UPDATES])
        for name, key in (("the new total stands there", "there"), ("a frame shows it", "painted")):
            found = times[key][UPDATES // 6 :]
            line(f"typing, until {name}", statistics.median(found), UPDATE_MS, "ms", max(found))
        line("the page and all its parts", _bytes(page), PAGE_BYTES, "bytes")
        browser.close()


def _first_paint(browser: Any, base: str) -> float:
    """Milliseconds from the address to a frame with the total, by a browser that keeps nothing."""
    context = browser.new_context()
    page = context.new_page()
    page.add_init_script(FIRST)
    page.goto(base)
    page.wait_for_function("() => window.usefulPaint")
    found: float = page.evaluate("window.usefulPaint")
    context.close()
    return found


def _bytes(page: Any) -> int:
    """Bytes as sent, once every tab was opened."""
    for tab in page.locator("[role=tab]").all():
        tab.click()
        page.wait_for_selector(f"#{tab.get_attribute('aria-controls')} *", state="attached")
    page.wait_for_load_state("networkidle")
    return sum(dict(page.evaluate(SENT)).values())


def line(name: str, value: float, most: float, unit: str, largest: float | None = None) -> None:
    """A figure, its bound, and whether it is within."""
    spread = "" if largest is None else f", at most {largest:,.0f}"
    verdict = "within" if value < most else "OVER"
    print(f"{name:44}{value:10,.0f} {unit}{spread}; {verdict} {most:,} {unit}", flush=True)
