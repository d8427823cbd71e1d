#!/usr/bin/env bash
# Installs what the tests need, builds, runs all tests.
#
#   tests/run.sh [--preset dev|release|asan|tsan|clang] [CTEST ARGUMENT ...]      default: release
set -euo pipefail
cd "$(dirname "$0")/.."

preset=release
if [ "${1:-}" = --preset ]; then
  preset=${2:?--preset needs a name}
  shift 2
fi

./deploy/install_dependencies.sh --tests
TRIREME_DEMO_MODEL=$(./deploy/fetch_demo_model.sh)
export TRIREME_DEMO_MODEL
cmake --preset "$preset" -DTRIREME_BUILD_TESTS=ON
cmake --build --preset "$preset"
ctest --preset "$preset" --parallel 2 "$@"
