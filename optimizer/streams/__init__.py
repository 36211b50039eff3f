"""Joins of streams: planned, validated, divided into epochs, and started."""
