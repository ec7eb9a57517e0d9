"""The command `moor`: parse, call, print."""
