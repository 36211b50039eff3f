"""What happens with a planned statement: whether its rewriting runs, who hears of it, and where it is written down."""
