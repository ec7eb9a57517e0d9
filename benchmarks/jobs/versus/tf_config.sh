#!/bin/bash
# TF_CONFIG by hand, as people write it: tf_config.sh PROGRAM mirrored|servers
# Each process is told who all of them are, and which one it is; the job is over with its chief.
# CHIEF_0, PS_0, … may hold a command that starts that process elsewhere (`ip netns exec …`), and
# ADDRESS_0 to ADDRESS_3 where chief, server and workers are reached then.
set -u
program=$1 kind=$2
port() { python -c 'import socket; s = socket.socket(); s.bind(("", 0)); print(s.getsockname()[1])'; }
start() { # role index
    local place="${1^^}_$2"
    TF_CONFIG="{\"cluster\": $cluster, \"task\": {\"type\": \"$1\", \"index\": $2}}" \
        ${!place:-} python "$program" &
}
if [ "$kind" = mirrored ]; then
    cluster="{\"worker\": [\"${ADDRESS_0:-127.0.0.1}:$(port)\", \"${ADDRESS_1:-127.0.0.1}:$(port)\"]}"
    start worker 1
    start worker 0
    wait $!
    code=$?
else
    cluster="{\"chief\": [\"${ADDRESS_0:-127.0.0.1}:$(port)\"], \"ps\": [\"${ADDRESS_1:-127.0.0.1}:$(port)\"],
        \"worker\": [\"${ADDRESS_2:-127.0.0.1}:$(port)\", \"${ADDRESS_3:-127.0.0.1}:$(port)\"]}"
    start ps 0
    start worker 0
    start worker 1
    start chief 0
    wait $!
    code=$?
fi
kill $(jobs -p) 2>/dev/null
wait
exit $code
