"""Modules of users are imported by the tests that derive them, where torch is."""

from __future__ import annotations

collect_ignore = ["user_modules.py"]
