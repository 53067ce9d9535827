"""`python -m sizer`."""

from sizer.cli import entry

entry()
