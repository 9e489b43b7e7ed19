#!/usr/bin/env bash
# Builds Sluice, fetches the default model and serves it on http://127.0.0.1:8000.
# Arguments go to `sluiced serve`:  ./run.sh --http-port 9000    ./run.sh --config configs/small.yaml
# The first run installs packages (apt), builds and downloads; later runs start within seconds.
source "$(dirname "${BASH_SOURCE[0]}")/scripts/common.sh"

mkdir -p "$ROOT/build"
install_packages "${BUILD_PACKAGES[@]}"
build release sluiced

SLUICED="$ROOT/build/release/server/sluiced"
# The default model, unless flags, environment or a configuration file name one.
model=()
if config=$("$SLUICED" config "$@" 2>/dev/null) && grep -q '^  path: "" ' <<<"$config"; then
  model=(--model "$(fetch_model)")
  ! grep -q '^  name: "" ' <<<"$config" || model+=(--served-model-name "$MODEL_NAME")
fi
exec "$SLUICED" serve "${model[@]}" "$@"
