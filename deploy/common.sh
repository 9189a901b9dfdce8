# Sourced by the set-up scripts of this folder, after `platform=NAME`: arguments, refusals, installs.
# shellcheck shell=bash disable=SC2034,SC2154  # set here for the script that sources this, and the reverse
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

dry_run=false vendor_python="" cuda=12 wheels=""

refuse() { # what is wrong, the next command
    printf 'error: %s\n  next: %s\n' "$1" "$2" >&2
    exit 2
}

usage() {
    printf 'usage: bash deploy/%s.sh [--dry-run] %s\n' "$platform" "${options:-}"
    printf 'Sets this box up for platform %s; see deploy/%s.md. --dry-run prints what it would do.\n' "$platform" "$platform"
    exit 0
}

while [ $# -gt 0 ]; do
    case "$1" in
        --dry-run) dry_run=true ;;
        --help | -h) usage ;;
        --python | --cuda | --wheels)
            case " ${options:-} " in
                *"$1 "*) ;;
                *) refuse "$1 is no option of deploy/$platform.sh" "bash deploy/$platform.sh --help" ;;
            esac
            [ $# -gt 1 ] || refuse "$1 wants a value" "bash deploy/$platform.sh --help"
            case "$1" in
                --python) vendor_python=$2 ;;
                --cuda) cuda=$2 ;;
                --wheels) wheels=$2 ;;
            esac
            shift
            ;;
        *) refuse "'$1' is no option of deploy/$platform.sh" "bash deploy/$platform.sh --help" ;;
    esac
    shift
done

run() { # print a command; do it, unless this is a dry run
    printf '+ %s\n' "$*"
    "$dry_run" || "$@"
}

python=$(sh scripts/find_python.sh)

on_this_box() { # refuse where the platform's device is not
    local reason
    if reason=$("$python" -m platforms.detect "$platform" 2>&1); then
        printf 'this box is %s: %s\n' "$platform" "$reason"
    else
        refuse "this box is not $platform: $reason" "ladder doctor"
    fi
}

versions() { # constraints.txt without the distributions that the platform brings in versions of its own
    local file pattern=$1
    file=$(mktemp)
    grep -vE "^($pattern)==" constraints.txt >"$file"
    printf '%s\n' "$file"
}

into_venv() { # a virtual environment of its own, Ladder and these distributions in it: VENV CONSTRAINTS DISTRIBUTION...
    local venv=$1 constraints=$2
    shift 2
    [ -x "$venv/bin/python" ] || run "$python" -m venv "$venv"
    run "$venv/bin/python" -m pip install --constraint "$constraints" --editable . "$@"
    examine "$venv/bin/python"
}

beside_vendor() { # Ladder into a vendor's own Python, whose stack must be after it what it was before
    local stack
    "$vendor_python" -c 'import sys; sys.exit(sys.version_info < (3, 12))' 2>/dev/null ||
        refuse "--python $vendor_python is no Python 3.12 or newer" "bash deploy/$platform.sh --help"
    stack=$(mktemp)
    run "$vendor_python" platforms/stack.py save "$stack"
    run "$vendor_python" -m pip install --constraint "$stack" --editable . ||
        refuse "Ladder does not install beside this stack; nothing of the stack was given up" "see deploy/$platform.md"
    run "$vendor_python" platforms/stack.py check "$stack" ||
        refuse "the install changed the vendor's stack, as listed above" "install the versions listed before again"
    examine "$vendor_python"
}

examine() { # the doctor has the last word, and the exit code
    run "$1" -m ladder.cli doctor --platform "$platform"
}
