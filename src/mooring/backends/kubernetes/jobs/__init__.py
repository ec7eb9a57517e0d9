"""Jobs of a cluster: what they ask for, what is remembered of them, what follows from both."""
