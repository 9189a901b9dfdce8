#!/usr/bin/env bash
# The second lowerer: IREE's compiler and runtime, of one version, beside jax on the CPU.
platform=iree-cpu
# shellcheck source=deploy/common.sh
. "$(dirname "$0")/common.sh"
on_this_box
into_venv .venv constraints.txt iree-base-compiler iree-base-runtime
