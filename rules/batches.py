"""The whole order, on one screen."""

from rules.lower.band_join import lower_band_join
from rules.lower.spark import leave_to_spark
from rules.normalize.push_filters import push_filters
from rules.recognize.band_join import band_join
from rules.rule import Batch, Rule

BATCHES = (
    Batch(
        "normalize",
        "so that every later rule meets one spelling",
        (push_filters,),
        settle=True,
    ),
    Batch(
        "recognize",
        "give joins their names, and choose nothing yet",
        (band_join,),
        settle=True,
    ),
    Batch(
        "lower",
        "choose operators; the only batch that looks at statistics",
        (lower_band_join, leave_to_spark),
    ),
)

RULES: tuple[Rule, ...] = tuple(r for batch in BATCHES for r in batch.rules)
