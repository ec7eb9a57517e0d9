"""Members that only seem to run: a runtime in virtual time."""
