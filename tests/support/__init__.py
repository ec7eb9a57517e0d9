"""What several test folders share: starting `moor`, waiting for conditions, finding leftovers."""
