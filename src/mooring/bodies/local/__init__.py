"""The local body: members as processes of this machine, plain or on virtual nodes."""
