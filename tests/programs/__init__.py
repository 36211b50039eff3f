"""Programs of users' kind, which run unchanged while an optimizer is installed."""
