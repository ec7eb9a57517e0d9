"""A member that is hard to end: it listens on its port, has children, and one is a daemon.

It ends well once the file in its first argument exists. Standard library only: it starts fast.
"""

import json
import os
import pathlib
import socket
import subprocess
import sys
import time

release = sys.argv[1]
peers = json.loads(os.environ["MOORING_PEERS"])
mine = peers[os.environ["MOORING_ROLE"]][int(os.environ["MOORING_INDEX"])]
port = int(mine.rsplit(":", 1)[1])
server = socket.socket()
server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
server.bind(("0.0.0.0", port))
server.listen()
children = [
    subprocess.Popen(["sleep", "300"]),
    subprocess.Popen(["setsid", "sleep", "300"]),
    subprocess.Popen(["sh", "-c", "setsid sleep 300 >/dev/null 2>&1 & exit 0"]),
]
print("up", flush=True)
while not pathlib.Path(release).exists():
    time.sleep(0.02)
print("done", flush=True)
