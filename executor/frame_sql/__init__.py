"""What both kinds of DataFrames are written with: blocks of SQL, literals, names of columns."""
