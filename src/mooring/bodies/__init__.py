"""Bodies carry a plan out: local processes today; each is unaware of the others."""
