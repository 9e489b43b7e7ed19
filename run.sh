#!/usr/bin/env bash
# Builds Sluice, fetches the default model and serves it on http://127.0.0.1:8000.
# Arguments go to `sluiced serve`:  ./run.sh --http-port 9000    ./run.sh --model /path/to/other.gguf
# The first run installs packages (apt), builds and downloads; later runs start within seconds.
source "$(dirname "${BASH_SOURCE[0]}")/scripts/common.sh"

mkdir -p "$ROOT/build"
install_packages "${BUILD_PACKAGES[@]}"
build release sluiced

model=()
case " $* " in
  *" --model "* | *" --model="* | *" --help "*) ;;
  *)
    model=(--model "$(fetch_model)")
    [[ " $*" == *" --served-model-name"* ]] || model+=(--served-model-name "$MODEL_NAME")
    ;;
esac
exec "$ROOT/build/release/server/sluiced" serve "${model[@]}" "$@"
