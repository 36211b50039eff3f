"""Band conditions: their axis, their bounds, their bins, and their exact ends."""
