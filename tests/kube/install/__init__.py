"""What `moor install` prints, on a real API server and a real node."""
