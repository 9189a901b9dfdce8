#!/usr/bin/env bash
# Intel GPUs: the oneAPI plugin and its runtime wheels in a virtual environment of their own.
platform=xpu options="[--python VENDOR_PYTHON]"
# shellcheck source=deploy/common.sh
. "$(dirname "$0")/common.sh"
on_this_box
if [ -n "$vendor_python" ]; then
    beside_vendor
else
    into_venv .venv-xpu "$(versions 'jax|jaxlib')" 'jax>=0.11.1,<0.12' jax-oneapi-plugin==0.11.2 jax-oneapi-pjrt==0.11.2
fi
