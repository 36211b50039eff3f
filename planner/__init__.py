"""What a plan is, and how Spark runs it.  The ground floor: imports nothing above itself."""
