"""The state of joins of streams: stored rows, their expiry, and the steps of an epoch."""
