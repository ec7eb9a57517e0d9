"""The HTTP API of the machine's queue, under /api/v1: models, routes, the server."""
