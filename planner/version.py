"""The version of Dovetail: of the package, and in the description of each state."""

VERSION = "0.1.0"
