#!/bin/sh
# What `make` asks before it downloads anything; a "no" is one sentence on standard error, and exit code 1.
#
#   check.sh python USE WANTED     prints the interpreter to take. USE: `frameworks`, or `core` for Mooring
#                                  alone; WANTED: a program, or "" for the first on this machine that fits
#   check.sh environment USE VENV  does the interpreter of this environment, if it is there, fit USE?
#   check.sh room MB VENV          are so many megabytes free where VENV is, or will be?
#   check.sh owner VENV            may this user write all of VENV, or make it?
#   check.sh ready USE MB VENV WANTED   all of these
#
# MAKE_TARGET is what the user typed after `make`, TENSORFLOW a version to take instead of run.lock's.
set -eu

oldest=11
# The newest Python 3 that the frameworks in run.lock and torch.txt have wheels for.
newest=13
tensorflow=$(sed -n 's/^tensorflow-cpu==\([0-9.]*\).*/\1/p' "$(dirname "$0")/run.lock")
ranges="TensorFlow $tensorflow has wheels for Python 3.$oldest to 3.$newest"
get_one="install python3.$newest and python3.$newest-venv from your system's packages, or run uv python install 3.$newest or pyenv install 3.$newest"
target=${MAKE_TARGET:-run}

stop() {
    echo "$*" >&2
    exit 1
}

# The minor version of a Python 3 that runs; nothing for any other program.
minor_of() {
    "$1" -c 'import sys; print(sys.version_info[1] if sys.version_info[0] == 3 else 0)' 2>/dev/null || true
}

# fits USE MINOR: a TensorFlow of the user's choice may have wheels for later ones than ours.
fits() {
    [ "$2" -ge "$oldest" ] || return 1
    [ "$1" = core ] || [ -n "${TENSORFLOW:-}" ] || [ "$2" -le "$newest" ]
}

# By their usual names and in their usual places, one a line.
candidates() {
    echo python3
    for minor in 13 12 11 14 15 16 17; do echo "python3.$minor"; done
    ls -d "${PYENV_ROOT:-$HOME/.pyenv}"/versions/3.*/bin/python3 2>/dev/null || true
    ls -d "${UV_PYTHON_INSTALL_DIR:-${XDG_DATA_HOME:-$HOME/.local/share}/uv/python}"/*/bin/python3 2>/dev/null || true
}

# In a process of its own, for the sake of IFS.
python() (
    use=$1 wanted=$2 others="" without_pip=""
    case "$use-$(uname -s)-$(uname -m)" in
        core-* | *-Linux-x86_64 | *-Linux-aarch64 | *-Darwin-arm64) ;;
        *) stop "TensorFlow $tensorflow has no wheel for $(uname -s) on $(uname -m); Mooring alone runs there: make install" ;;
    esac
    IFS='
'
    for program in ${wanted:-$(candidates)}; do
        minor=$(minor_of "$program")
        if [ -z "$minor" ]; then
            continue
        elif ! fits "$use" "$minor"; then
            others="$others${others:+, }$program (3.$minor)"
        elif ! "$program" -c 'import ensurepip, venv' 2>/dev/null; then
            without_pip=${without_pip:-"$program cannot make virtual environments: install python3.$minor-venv from your system's packages"}
        else
            "$program" -c 'import sys; print(sys.executable)'
            exit
        fi
    done
    [ -z "$without_pip" ] || stop "$without_pip"
    here="of these there is none here${wanted:+ called $wanted}"
    [ -z "$others" ] || here="here is $others"
    [ "$use" = core ] || stop "$ranges; $here: $get_one (once there is a TensorFlow for your Python: make $target TENSORFLOW=VERSION)"
    stop "Mooring needs Python 3.$oldest or later; $here: $get_one"
)

environment() {
    [ -e "$2" ] || return 0
    minor=$(minor_of "$2/bin/python")
    [ -n "$minor" ] || stop "the Python of $2 is gone: rm -r $2, then make $target again"
    fits "$1" "$minor" || stop "$ranges, and $2 has 3.$minor: rm -r $2, then make $target again"
}

# The folder itself, or the nearest one above it that exists.
existing() {
    folder=$1
    while [ ! -e "$folder" ]; do folder=$(dirname "$folder"); done
    echo "$folder"
}

room() {
    free_mb=$(df -Pk "$(existing "$2")" | awk 'NR == 2 { print int($4 / 1024) }')
    [ "$free_mb" -ge "$1" ] || stop "make $target needs about $(gigabytes "$1") at $2 and $(gigabytes "$free_mb") are free:" \
        "make room, or take another disk: make $target VENV=/other/disk/venv"
}

gigabytes() { awk -v mb="$1" 'BEGIN { printf "%.1f GB", mb / 1024 }'; }

owner() {
    place=$(existing "$1")
    if [ "$(id -u)" = 0 ]; then
        theirs=$(owner_of "$place")
        [ "$theirs" = root ] || echo "$place belongs to $theirs and you are root: what make writes there is root's until you chown it" >&2
        return
    fi
    foreign=$place
    [ ! -w "$place" ] || foreign=""
    [ "$place" != "$1" ] || foreign=$(find "$1" ! -user "$(id -un)" 2>/dev/null | head -n 1)
    [ -z "$foreign" ] || stop "$foreign belongs to $(owner_of "$foreign") and you are $(id -un):" \
        "sudo chown -R $(id -un) $place, or make $target VENV=\$HOME/mooring-venv"
}

owner_of() { ls -ld "$1" | awk '{ print $3 }'; }

ready() {
    owner "$3"
    environment "$1" "$3"
    [ -e "$3" ] || python "$1" "$4" >/dev/null
    room "$2" "$3"
}

question=$1
shift
"$question" "$@"
