"""Whether a gang lives on loopback alone: frameworks that choose an interface must be told."""

from __future__ import annotations

from ipaddress import ip_address

from mooring.model.identity import Identity


def on_loopback(identity: Identity) -> bool:
    """True if every peer is reached on a loopback address (plain processes on one machine)."""
    return all(_is_loopback(peer.host) for peer in identity.peers)


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
