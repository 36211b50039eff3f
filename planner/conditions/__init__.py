"""Conditions of WHERE and ON: conjuncts, comparisons, and one form for all spellings."""
