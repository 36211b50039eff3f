"""DataFrames that exist already, whose plans in Spark are read; and the installed actions that plan them."""
