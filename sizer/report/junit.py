"""JUnit XML, which CI systems show as a list of tests."""

from __future__ import annotations

from collections.abc import Sequence
from xml.sax.saxutils import escape, quoteattr

from sizer.core.record import Record


class Case(Record):
    """One test: its name, and what failed, or what kept it from running. Neither: it passed."""

    __slots__ = ("error", "failure", "line", "name", "skipped")

    def __init__(
        self, name: str, failure: str = "", error: str = "", skipped: str = "", line: int = 0
    ) -> None:
        self.name = name
        self.failure = failure
        self.error = error
        self.skipped = skipped
        self.line = line


def junit(suite: str, cases: Sequence[Case], *, file: str = "") -> str:
    """The cases of one suite as XML.

    >>> print(junit("sizer check", [Case("gpt2-small"), Case("ours", failure="params: 1 < 2")]))
    <?xml version="1.0" encoding="UTF-8"?>
    <testsuites>
      <testsuite name="sizer check" tests="2" failures="1" errors="0" skipped="0">
        <testcase classname="sizer check" name="gpt2-small"/>
        <testcase classname="sizer check" name="ours">
          <failure message="params: 1 &lt; 2">params: 1 &lt; 2</failure>
        </testcase>
      </testsuite>
    </testsuites>
    """
    counts = {
        "tests": len(cases),
        "failures": sum(bool(c.failure) for c in cases),
        "errors": sum(bool(c.error) for c in cases),
        "skipped": sum(bool(c.skipped) for c in cases),
    }
    numbers = " ".join(f'{name}="{number}"' for name, number in counts.items())
    lines = [f"  <testsuite name={_attribute(suite)} {numbers}>"]
    for case in cases:
        place = f" file={_attribute(file)}" if file else ""
        place += f' line="{case.line}"' if case.line else ""
        head = f"    <testcase classname={_attribute(suite)} name={_attribute(case.name)}{place}"
        said = [(tag, getattr(case, tag)) for tag in ("failure", "error", "skipped") if getattr(case, tag)]
        if not said:
            lines.append(f"{head}/>")
            continue
        lines.append(f"{head}>")
        for tag, text in said:
            first = text.partition("\n")[0]
            lines.append(f"      <{tag} message={_attribute(first)}>{escape(_printable(text))}</{tag}>")
        lines.append("    </testcase>")
    lines.append("  </testsuite>")
    return "\n".join(['<?xml version="1.0" encoding="UTF-8"?>', "<testsuites>", *lines, "</testsuites>"])


def _attribute(text: str) -> str:
    return quoteattr(_printable(text))


def _printable(text: str) -> str:
    """A text without the control characters that XML has no way to write."""
    return "".join(c if c in "\n\t" or (c >= " " and not _forbidden(c)) else "�" for c in text)


def _forbidden(character: str) -> bool:
    return "\ud800" <= character <= "\udfff" or character in "\ufffe\uffff"
