"""The first process of a real node: makes its world, then runs containerd and the kubelet.

A program, `node_init.py SPEC.json`, started in mount, network and process namespaces of its own.
What the kubelet and containerd write outside of their folders (/run, /var/log, /var/lib, kernel
settings) goes to file systems of these namespaces: when this process ends, all of it is gone, and
every process of the node with it.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

# What the kubelet would set on the machine, were it not so already (its container manager's
# `setupKernelTunables`).
KERNEL = {
    "vm/overcommit_memory": "1",
    "vm/panic_on_oom": "0",
    "kernel/panic": "10",
    "kernel/panic_on_oops": "1",
    "kernel/keys/root_maxkeys": "1000000",
    "kernel/keys/root_maxbytes": "25000000",
}
WRITTEN = ("/var/lib", "/var/log")


def main(spec: dict[str, Any]) -> int:
    folder = Path(spec["folder"])
    _shield_kernel_settings(folder)
    _mount_tmpfs("/run")
    for path in WRITTEN:
        _mount_overlay(path)
    _connect(spec["bridge_address"])
    containerd = _start(spec, "containerd")
    _wait_for(Path(spec["socket"]))
    for image in spec["images"]:
        _run(*spec["import"], image)
    kubelet = _start(spec, "kubelet")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    while True:
        # Also the shims of containers come here when they end: this is their process 1.
        ended, status = os.wait()
        if ended in (containerd.pid, kubelet.pid):
            who = "containerd" if ended == containerd.pid else "the kubelet"
            print(f"{who} has ended with {status}", flush=True)
            return 1


def _shield_kernel_settings(folder: Path) -> None:
    for name, value in KERNEL.items():
        setting = Path("/proc/sys", name)
        if setting.exists():
            file = folder / "kernel" / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(f"{value}\n")
            _run("mount", "--bind", file, setting)


def _mount_tmpfs(path: str) -> None:
    _run("mount", "-t", "tmpfs", "-o", "mode=755", "none", path)


def _mount_overlay(path: str) -> None:
    """What is there stays to be seen; what is written goes to memory."""
    layers = Path("/run/layers", path.strip("/"))
    upper, work = layers / "upper", layers / "work"
    upper.mkdir(parents=True)
    work.mkdir()
    options = f"lowerdir={path},upperdir={upper},workdir={work}"
    _run("mount", "-t", "overlay", "-o", options, "none", path)


def _connect(address: str) -> None:
    """The node's end of the cable comes from outside; it and the pods are on one bridge."""
    _wait_for(Path("/proc/sys/net/ipv4/conf/eth0"))
    _run("ip", "link", "set", "lo", "up")
    _run("ip", "link", "add", "cni0", "type", "bridge")
    _run("ip", "link", "set", "eth0", "master", "cni0")
    _run("ip", "address", "add", address, "dev", "cni0")
    for link in ("eth0", "cni0"):
        _run("ip", "link", "set", link, "up")


def _wait_for(path: Path, deadline_s: float = 60.0) -> None:
    give_up = time.monotonic() + deadline_s
    while not path.exists():
        if time.monotonic() > give_up:
            sys.exit(f"{path} did not appear")
        time.sleep(0.02)


def _run(*command: str | Path) -> None:
    subprocess.run(command, check=True)


def _start(spec: dict[str, Any], name: str) -> subprocess.Popen[bytes]:
    env = {**os.environ, **spec["env"]}
    with Path(spec["folder"], f"{name}.log").open("wb") as log:
        return subprocess.Popen(spec[name], env=env, stdout=log, stderr=subprocess.STDOUT)


if __name__ == "__main__":
    sys.exit(main(json.loads(Path(sys.argv[1]).read_text())))
