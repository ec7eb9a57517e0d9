"""The local runtime: members as processes of this machine, plain or on virtual nodes."""
