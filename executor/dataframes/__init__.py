"""DataFrames that exist already, written as SQL from Spark's plans; and the installed actions that plan them."""
