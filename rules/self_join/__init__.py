"""Relations whose row is another one's, or a neighbour of it, and what stands for them."""
