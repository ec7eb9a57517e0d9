"""Members that only seem to run: a body in virtual time."""
