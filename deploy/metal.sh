#!/usr/bin/env bash
# Apple GPUs: jax-graft (jax platform "mtl") in a virtual environment of its own; pip chooses the jax it wants.
platform=metal
# shellcheck source=deploy/common.sh
. "$(dirname "$0")/common.sh"
on_this_box
into_venv .venv-metal "$(versions 'jax|jaxlib')" jax-graft==0.0.5
