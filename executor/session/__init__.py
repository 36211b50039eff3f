"""Spark sessions: statements, settings, views, jobs, and their errors.  Works on classic and Connect sessions."""
