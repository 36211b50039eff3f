"""Conditions of WHERE and ON: conjuncts, comparisons, and a normal form."""
