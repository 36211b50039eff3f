"""The command line: commands, their options, and completion in shells."""
