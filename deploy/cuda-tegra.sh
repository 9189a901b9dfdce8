#!/usr/bin/env bash
# A Jetson: wheels of the plugin that were built for sm_87 (no published wheel has its kernels).
platform=cuda-tegra options="--wheels FOLDER"
# shellcheck source=deploy/common.sh
. "$(dirname "$0")/common.sh"
on_this_box
[ -n "$wheels" ] || refuse "a Jetson's plugin must be built for sm_87, and --wheels was not given" "see deploy/cuda-tegra.md"
built=()
for wheel in "$wheels"/jax_cuda12_p*.whl "$wheels"/jaxlib*.whl; do
    [ -f "$wheel" ] && built+=("$wheel")
done
[ ${#built[@]} -gt 0 ] || refuse "--wheels $wheels holds no jax_cuda12_plugin, jax_cuda12_pjrt or jaxlib wheel" "see deploy/cuda-tegra.md"
into_venv .venv-tegra "$(versions 'jax|jaxlib')" "jax==0.11.1" "${built[@]}"
