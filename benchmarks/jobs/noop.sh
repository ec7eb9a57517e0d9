#!/bin/sh
# Says that it runs, then stays until it is ended.
echo >"$BENCH_FIFO"
exec sleep 600
