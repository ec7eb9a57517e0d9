"""Operators that are killed at the worst moments, behind an API server that misbehaves."""
