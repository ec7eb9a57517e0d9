"""Repairs undone, one patch each: the test that shows a repair must fail without it."""
