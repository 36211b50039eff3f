"""The implementation of the commands: inputs, outputs, sessions and terminal output."""
