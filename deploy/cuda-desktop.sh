#!/usr/bin/env bash
# NVIDIA cards: jax's own CUDA 12 or 13 wheels in a virtual environment of their own.
platform=cuda-desktop options="[--cuda 12|13] [--python VENDOR_PYTHON]"
# shellcheck source=deploy/common.sh
. "$(dirname "$0")/common.sh"
case "$cuda" in
    12 | 13) ;;
    *) refuse "--cuda $cuda: there is 12 and 13" "bash deploy/cuda-desktop.sh --cuda 12" ;;
esac
on_this_box
if [ -n "$vendor_python" ]; then
    beside_vendor
else
    into_venv ".venv-cuda$cuda" constraints.txt "jax[cuda$cuda]"
fi
