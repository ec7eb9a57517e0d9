"""Frozen values shared by every layer: resources, cluster, members, identity, plan, status.

Nothing here does I/O or knows who uses it.
"""
