#!/bin/sh
# two-cells.sh COMMAND...: this machine with a description of two NUMA cells, for one command.
# CPU 0 is a cell with an L3 cache of its own, the other CPUs are the second. Only what /sys says is
# different, in a mount namespace that only the command sees: processes, memory and CPUs are the real
# ones. Control groups are taken away: the kernel would not give out a cell that is not there.
#   PCI="0000:3b:00.0=1"              PCI devices with their cells
#   NIC="eth7=02:00:00:00:00:01=1"    a network interface with its hardware address and cell
# As root.
set -e
if [ -z "$TWO_CELLS" ]; then
    TWO_CELLS=1 exec unshare -m sh "$0" "$@"
fi
unset TWO_CELLS
last=$(($(getconf _NPROCESSORS_CONF) - 1))
if [ "$last" -gt 1 ]; then rest="1-$last"; else rest=1; fi
mask=$(printf %x $(((2 << last) - 2)))

# Written before it is laid over the real one, parts of which must still be read.
cover() { # FOLDER: an empty one in its place
    mount -t tmpfs tmpfs "$1"
}
shared=$(mktemp -d)
mount -t tmpfs tmpfs "$shared"
echo 1 > "$shared/first"
echo "$mask" > "$shared/others"
for map in /sys/devices/system/cpu/cpu[0-9]*/cache/index3/shared_cpu_map; do
    case $map in
        */cpu0/*) mount --bind "$shared/first" "$map" ;;
        *) [ ! -e "$map" ] || mount --bind "$shared/others" "$map" ;;
    esac
done
nodes=/sys/devices/system/node
cover $nodes
mkdir $nodes/node0 $nodes/node1
echo 0 > $nodes/node0/cpulist; echo 1 > $nodes/node0/cpumap
echo "$rest" > $nodes/node1/cpulist; echo "$mask" > $nodes/node1/cpumap
for name in online possible has_cpu; do echo 0-1 > $nodes/$name; done
if [ -n "$PCI" ]; then
    cover /sys/bus/pci/devices
    for device in $PCI; do
        mkdir "/sys/bus/pci/devices/${device%=*}"
        echo "${device##*=}" > "/sys/bus/pci/devices/${device%=*}/numa_node"
    done
fi
if [ -n "$NIC" ]; then
    cover /sys/class/net
    folder=/sys/class/net/${NIC%%=*}
    mkdir -p "$folder/device"
    address=${NIC#*=}
    echo "${address%=*}" > "$folder/address"
    echo "${NIC##*=}" > "$folder/device/numa_node"
fi
umount -R /sys/fs/cgroup 2>/dev/null || true
umount -l "$shared" && rmdir "$shared"
exec "$@"
