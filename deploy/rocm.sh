#!/usr/bin/env bash
# AMD GPUs: the ROCm 10 wheels in a virtual environment of their own, or beside the stack of AMD's image.
platform=rocm options="[--python VENDOR_PYTHON]"
# shellcheck source=deploy/common.sh
. "$(dirname "$0")/common.sh"
on_this_box
if [ -n "$vendor_python" ]; then
    beside_vendor
else
    into_venv .venv-rocm10 "$(versions 'jax|jaxlib')" \
        jax==0.11.1 jaxlib==0.11.1 jax-rocm10-plugin==0.11.1 jax-rocm10-pjrt==0.11.1
fi
