#!/bin/sh
# System packages that the tests use: Open MPI for the MPI adapter, iproute2 and util-linux for
# virtual nodes and for Kubernetes nodes, openssl for the certificates of Kubernetes, tmux as a
# terminal whose screen can be read. Installed on Debian and Ubuntu as root; elsewhere it says what is missing.
set -eu
missing=""
command -v mpirun >/dev/null || missing="$missing openmpi-bin"
command -v ip >/dev/null || missing="$missing iproute2"
command -v lscpu >/dev/null || missing="$missing util-linux"
command -v openssl >/dev/null || missing="$missing openssl"
command -v tmux >/dev/null || missing="$missing tmux"
[ -n "$missing" ] || exit 0
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    apt-get update -qq
    # shellcheck disable=SC2086
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing >/dev/null
else
    echo "please install:$missing (the tests that need them will fail)" >&2
fi
