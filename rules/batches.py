"""The batches of rules, in their order."""

from dovetail.rules.lower.aggregate_band_join import aggregate_band_join
from dovetail.rules.lower.band_join import lower_band_join
from dovetail.rules.lower.band_window import lower_band_window
from dovetail.rules.lower.extreme_exists import lower_extreme_exists, lower_extreme_values
from dovetail.rules.lower.join_hints import drop_hints, keep_nested_loop
from dovetail.rules.lower.key_join import lower_key_join
from dovetail.rules.lower.lookup_join import lower_lookup_join
from dovetail.rules.lower.nearest_join import (
    lower_nearest_join,
    lower_nearest_subquery,
    lower_nearest_ties,
    lower_nearest_versions,
)
from dovetail.rules.lower.self_aggregate import lower_merged_scalar_aggregates, lower_self_aggregate
from dovetail.rules.normalize.carry_filters import carry_filters
from dovetail.rules.normalize.exists_to_join import exists_to_join
from dovetail.rules.normalize.inline_views import inline_views
from dovetail.rules.normalize.lateral_to_join import lateral_to_join
from dovetail.rules.normalize.name_relations import name_relations
from dovetail.rules.normalize.named_windows import named_windows
from dovetail.rules.normalize.pipes import pipes
from dovetail.rules.normalize.plain_relations import plain_relations
from dovetail.rules.normalize.predicates import predicates
from dovetail.rules.normalize.push_filters import push_filters
from dovetail.rules.normalize.star_except import star_except
from dovetail.rules.normalize.using_to_on import using_to_on
from dovetail.rules.recognize.band_groups import band_groups
from dovetail.rules.recognize.band_join import band_join
from dovetail.rules.recognize.band_subquery import band_subquery
from dovetail.rules.recognize.correlated_groups import correlated_groups
from dovetail.rules.recognize.extreme_exists import extreme_exists, extreme_exists_value
from dovetail.rules.recognize.join_hints import join_hints
from dovetail.rules.recognize.key_join import key_join
from dovetail.rules.recognize.lookup_filters import lookup_filters
from dovetail.rules.recognize.lookup_hints import lookup_hints
from dovetail.rules.recognize.lookup_join import lookup_join
from dovetail.rules.recognize.merge_scalar_aggregates import merge_scalar_aggregates
from dovetail.rules.recognize.nearest_row import nearest_groups, nearest_row
from dovetail.rules.recognize.nearest_subquery import nearest_subquery
from dovetail.rules.recognize.nearest_syntax import nearest_syntax
from dovetail.rules.recognize.nearest_version import nearest_versions
from dovetail.rules.recognize.self_aggregate import self_aggregate
from dovetail.rules.recognize.self_join_elimination import self_join_elimination
from dovetail.rules.recognize.temporal_join import temporal_join
from dovetail.rules.rule import Batch, Rule

BATCHES = (
    Batch(
        "normalize",
        "so that every later rule reads one form",
        (
            pipes,
            inline_views,
            name_relations,
            named_windows,
            plain_relations,
            predicates,
            using_to_on,
            star_except,
            lateral_to_join,
            carry_filters,
            push_filters,
            exists_to_join,
        ),
        fixed_point=True,
    ),
    Batch(
        "recognize",
        "replace query blocks first (nearest rows, self-joins, shared scans), while all joins are as written",
        (
            nearest_syntax,
            self_join_elimination,
            merge_scalar_aggregates,
            self_aggregate,
            band_subquery,
            band_groups,
            nearest_row,
            nearest_groups,
            nearest_subquery,
            nearest_versions,
            extreme_exists_value,
            correlated_groups,
        ),
    ),
    Batch(
        "recognize",
        "give joins their names, and choose nothing yet",
        (lookup_join, temporal_join, lookup_filters, extreme_exists, band_join, key_join, join_hints, lookup_hints),
        fixed_point=True,
    ),
    Batch(
        "lower",
        "choose operators; the only batch that looks at statistics",
        (
            lower_band_window,
            drop_hints,
            lower_nearest_subquery,
            lower_nearest_ties,
            lower_nearest_versions,
            lower_merged_scalar_aggregates,
            lower_self_aggregate,
            aggregate_band_join,
            keep_nested_loop,
            lower_lookup_join,
            lower_extreme_exists,
            lower_extreme_values,
            lower_nearest_join,
            lower_band_join,
            lower_key_join,
        ),
    ),
)

RULES: tuple[Rule, ...] = tuple(r for batch in BATCHES for r in batch.rules)
