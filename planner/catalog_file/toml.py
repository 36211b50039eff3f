"""Parses TOML: with tomllib of the standard library from Python 3.11 on, with tomli on older versions."""

from __future__ import annotations

import sys

if sys.version_info >= (3, 11):
    from tomllib import loads as loads
else:
    from tomli import loads as loads
