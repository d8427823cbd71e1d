#!/usr/bin/env bash
# Formatting, clang-tidy and the protos' lint; exit status 0 if there is nothing to mend.
#
#   tests/lint.sh [--preset dev|release|clang] [FILE.cc ...]      default: release, every source that is no test
#
# Needs Debian's clang-format-14 and clang-tidy-14, and the preset's build (cmake --preset P && cmake --build --preset P:
# clang-tidy reads generated headers). `buf` is optional: PyPI's buf-bin has it.
set -euo pipefail
cd "$(dirname "$0")/.."

preset=release
if [ "${1:-}" = --preset ]; then
  preset=${2:?--preset needs a name}
  shift 2
fi
sources=("$@")
if [ ${#sources[@]} = 0 ]; then
  mapfile -t sources < <(git ls-files 'base/*.cc' 'sharding/*.cc' 'kernels/*.cc' 'worker/*.cc' 'server/*.cc' 'client/*.cc')
fi
failed=()

say() { printf '==> %s\n' "$*" >&2; }

check() {
  local name=$1
  shift
  say "$name"
  "$@" || failed+=("$name")
}

format() { git ls-files -z '*.cc' '*.h' | xargs -0 clang-format-14 --dry-run -Werror; }

tidy() {
  if [ ! -f "build/$preset/compile_commands.json" ]; then
    say "no build/$preset/compile_commands.json: build the preset first"
    return 1
  fi
  printf '%s\0' "${sources[@]}" | xargs -0 -n 1 -P "$(nproc)" clang-tidy-14 -p "build/$preset" --quiet
}

check clang-format format
check clang-tidy tidy
if command -v buf >/dev/null && buf --version >/dev/null 2>&1; then
  check buf buf lint proto
else
  say "buf is not on PATH: the protos' lint was left out"
fi

if [ ${#failed[@]} -gt 0 ]; then
  say "to mend: ${failed[*]}"
  exit 1
fi
say "nothing to mend"
