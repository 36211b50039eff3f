"""Estimates of a statement's aggregates, which become narrower until they are exact."""
