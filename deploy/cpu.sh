#!/usr/bin/env bash
# A plain CPU: the same as `make .venv/.ladder`, in words.
platform=cpu
# shellcheck source=deploy/common.sh
. "$(dirname "$0")/common.sh"
on_this_box
into_venv .venv constraints.txt
