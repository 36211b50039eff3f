"""Names of folders with every character that a file system takes, for tests."""

from __future__ import annotations

from hypothesis import strategies as st

PATTERNS = "?*[]{}\\"
"""What Hadoop takes for a pattern of names."""
ODD = PATTERNS + " %#:+,;=&$!~'\"`^()@-_.\n\téü☃"

_character = st.one_of(
    st.sampled_from(ODD), st.sampled_from("kab19"), st.characters(exclude_categories=["Cs"], exclude_characters="/\0")
)
names = st.text(_character, min_size=1, max_size=12).filter(lambda name: name not in (".", ".."))
