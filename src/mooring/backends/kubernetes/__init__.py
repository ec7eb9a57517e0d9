"""A Kubernetes cluster: the API server, its objects, jobs there, and what a user's command does."""
