"""Tables that live elsewhere and are asked by key: what they are, and how their rows are fetched.  No Spark in here."""
