"""A real Kubernetes on this machine, for tests and for development by hand.

The parts and who uses whom: `binaries` finds the programs and `build` makes them; `control_plane`
runs etcd, API server, controller manager and scheduler on loopback; `fake_nodes` and `hollow` give
it nodes without machines; `real_node` gives it this machine as a node, with `images` and `dns`.
`python -m kube.cluster` (from the folder `tests`) is the same for the command line.
"""
