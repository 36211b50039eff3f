"""Band conditions: the line they lie on, their bounds, their bins, their exact ends."""
