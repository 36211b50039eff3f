"""Masks secrets in any text: passwords in addresses, and values after names such as ``password``.

A value is masked if it is a text in SQL (``OPTIONS (url 'https://ann:x1@h', password 'x2')``), a part of an address
(``jdbc:postgresql://h/db?password=x1``) or the value of a SET.
"""

from __future__ import annotations

import re

MASK = "…"
_SECRET = (
    r"[\w.\-]*(?:passw(?:or)?d|passwd|pwd|passphrase|secret|token|credential|signature|access[_.\-]?key|"
    r"account[_.\-]?key|api[_.\-]?key|private[_.\-]?key|authorization|\bsas)[\w.\-]*"
)
_QUOTED = r"'(?:[^'\\]|\\.|'')*'|\"(?:[^\"\\]|\\.|\"\")*\""
_USERINFO = re.compile(r"(\w[\w+.\-]*://|jdbc:oracle:\w+:)[^\s'\"<>]+@")
_NAMED = re.compile(rf"(?i)((?:(['\"`]){_SECRET}\2|{_SECRET})(?:\s*(?:=>|=|:|,)\s*|\s+))({_QUOTED})")
_PLAIN = re.compile(rf"(?i)(\b{_SECRET}[=:])(?![>'\"])([^\s;&,)'\"]+)")
_SET = re.compile(rf"(?im)(\bSET\s+`?{_SECRET}`?\s*=\s*)([^;\n]+)")
_BEARER = re.compile(r"(?i)\b((?:bearer|basic)\s+)[\w.~+/\-]{8,}=*")
_KEYS = re.compile(r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b|\bdapi[0-9a-f]{32}\b|\bgh[pousr]_\w{30,}|\beyJ[\w\-]{10,}\.[\w.\-]+")
_PEM = re.compile(r"(?s)-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)")


def mask_secrets(text: str) -> str:
    """A text without what looks like a secret; what is masked is shown as ``…``."""
    text = _BEARER.sub(rf"\1{MASK}", _KEYS.sub(MASK, _PEM.sub(MASK, text)))
    text = _SET.sub(rf"\1{MASK}", _USERINFO.sub(rf"\1{MASK}@", text))
    text = _NAMED.sub(lambda found: f"{found[1]}{found[3][0]}{MASK}{found[3][0]}", text)
    return _PLAIN.sub(rf"\1{MASK}", text)
