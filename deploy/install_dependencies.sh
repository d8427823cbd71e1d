#!/usr/bin/env bash
# Installs what building Trireme needs on Debian 12, and nothing that is there already.
#
#   deploy/install_dependencies.sh [--tests]     --tests: also what the tests need
#
# From Debian: compilers and libraries; Rust as cargo-web and rustc-web unless a toolchain of 1.87 or later is on PATH.
# From PyPI: googleapis-common-protos (google/rpc/*.proto), into ${XDG_CACHE_HOME:-~/.cache}/trireme/googleapis.
set -euo pipefail

readonly rust_minimum=1.87
readonly protos=googleapis-common-protos==1.76.0
cache=${XDG_CACHE_HOME:-$HOME/.cache}/trireme

packages=(
  ca-certificates git g++ cmake ninja-build ccache pkg-config python3 python3-pip
  libgrpc++-dev protobuf-compiler protobuf-compiler-grpc libprotobuf-dev libabsl-dev libssl-dev
  nlohmann-json3-dev prometheus-cpp-dev libcurl4-openssl-dev libdnnl-dev libhwy-dev
)
test_packages=(libgtest-dev libgmock-dev openssl python3-grpcio)

say() { printf '==> %s\n' "$*" >&2; }

as_root() {
  if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi
}

# Prints those of the given packages that are not installed.
missing_packages() {
  local package
  for package in "$@"; do
    [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || echo "$package"
  done
}

install_packages() {
  local missing
  mapfile -t missing < <(missing_packages "$@")
  [ ${#missing[@]} -gt 0 ] || return 0
  say "installing from Debian: ${missing[*]}"
  as_root apt-get update -q
  as_root env DEBIAN_FRONTEND=noninteractive apt-get install -yq --no-install-recommends "${missing[@]}"
}

# True if cargo and rustc on PATH are both at least rust_minimum.
has_rust() {
  local tool version
  for tool in cargo rustc; do
    version=$("$tool" --version 2>/dev/null | awk '{print $2}') || return 1
    [ -n "$version" ] || return 1
    [ "$(printf '%s\n' "$rust_minimum" "$version" | sort -V | head -n 1)" = "$rust_minimum" ] || return 1
  done
}

install_protos() {
  [ ! -e "$cache/googleapis/google/rpc/error_details.proto" ] || return 0
  say "fetching $protos from PyPI"
  local download
  download=$(mktemp -d)
  python3 -m pip download -q --no-deps --dest "$download" "$protos"
  python3 -m zipfile -e "$download"/*.whl "$download/unpacked"
  rm -rf "$cache/googleapis"
  mkdir -p "$cache/googleapis"
  mv "$download/unpacked/google" "$cache/googleapis/"
  rm -rf "$download"
}

case "${1:-}" in
  --tests) packages+=("${test_packages[@]}") ;;
  "") ;;
  *) sed -n '2,7p' "$0" | sed 's/^# \{0,1\}//'; exit 2 ;;
esac
install_packages "${packages[@]}"
has_rust || install_packages cargo-web rustc-web
has_rust || { say "no Rust toolchain of $rust_minimum or later: found $(rustc --version 2>&1), $(cargo --version 2>&1)"; exit 1; }
install_protos
