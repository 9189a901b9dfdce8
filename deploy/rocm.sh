#!/usr/bin/env bash
# AMD GPUs: the ROCm 10 plugin in a virtual environment of its own, or Ladder beside the stack of AMD's image.
platform=rocm options="[--wheels FOLDER] [--python VENDOR_PYTHON]"
# shellcheck source=deploy/common.sh
. "$(dirname "$0")/common.sh"
on_this_box
if [ -n "$vendor_python" ]; then
    beside_vendor
    exit
fi
plugin=(jax-rocm10-plugin==0.11.1 jax-rocm10-pjrt==0.11.1)
if [ -n "$wheels" ]; then
    plugin=()
    for wheel in "$wheels"/*.whl; do
        [ -f "$wheel" ] && plugin+=("$wheel")
    done
    [ ${#plugin[@]} -gt 0 ] || refuse "--wheels $wheels holds no wheel" "see deploy/rocm.md"
elif [ ! -d "${ROCM_PATH:-/opt/rocm}" ]; then
    refuse "the published plugin brings no ROCm libraries, and there is no ${ROCM_PATH:-/opt/rocm}" "see deploy/rocm.md"
fi
into_venv .venv-rocm10 "$(versions 'jax|jaxlib')" jax==0.11.1 jaxlib==0.11.1 "${plugin[@]}"
