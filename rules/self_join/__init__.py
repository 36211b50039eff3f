"""Self-joins on a unique key or a row number, and the columns or windows that replace them."""
