"""Views that Dovetail makes in the user's session for a moment, under names that are always the same."""

from __future__ import annotations

from threading import RLock

OWN_VIEWS = RLock()
"""Held while such views are made, asked and dropped: of two threads of one session the second waits."""
