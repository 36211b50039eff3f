"""DataFrames that exist already, written as SQL: their plans, relations and expressions."""
