"""Quantiles of Student's distribution."""

from __future__ import annotations

from statistics import NormalDist

_NORMAL = NormalDist()


def t_quantile(probability: float, degrees: int) -> float:
    """Return the quantile of Student's distribution, to three digits from 8 degrees of freedom on.

    Abramowitz and Stegun, Handbook of Mathematical Functions, 26.7.5: an expansion around the normal quantile.
    """
    z = _NORMAL.inv_cdf(probability)
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return float(z + sum(term / degrees**power for power, term in enumerate(terms, 1)))
