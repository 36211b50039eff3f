"""What stands behind the command line: inputs, outputs, sessions, and how things are said."""
