#!/bin/sh
# Prints a Python >= 3.12 with venv: the tested minors first, from PATH, then pyenv's own versions (shims may be inactive).
ok() { "$1" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 12))' >/dev/null 2>&1; }
for python in python3.12 python3.13 python3 python3.14 python; do
    path=$(command -v "$python" 2>/dev/null) && ok "$path" && echo "$path" && exit 0
done
for path in "${PYENV_ROOT:-$HOME/.pyenv}"/versions/3.1[2-9]*/bin/python3; do
    [ -x "$path" ] && ok "$path" && echo "$path" && exit 0
done
echo "Ladder needs Python >= 3.12 and found none; get one with 'pyenv install 3.12', 'uv python install 3.12', or Debian's 'apt-get install python3.12 python3.12-venv'." >&2
exit 1
