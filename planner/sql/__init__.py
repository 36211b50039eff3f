"""SQL text to logical plan, physical plan to SQL text, and which column a name means."""
