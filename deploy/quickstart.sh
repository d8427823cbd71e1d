#!/usr/bin/env bash
# From a clone to a streamed answer: installs what is missing, builds, fetches the demo model, starts the server,
# streams the answer to one chat prompt, and goes on serving until Ctrl-C.
#
#   deploy/quickstart.sh [--once] [--prompt TEXT] [SERVER FLAG ...]
#
#   --once          stop after the answer; the exit status tells whether it came
#   --prompt TEXT   what to ask
#   anything else   goes to trireme-server: --tp-degree 3, --model DIR, --listen 127.0.0.1:9000, ...
set -euo pipefail
cd "$(dirname "$0")/.."

once=false
prompt="Why is the sky blue? Answer in two sentences."
listen=127.0.0.1:8700
model=
server_flags=()
while [ $# -gt 0 ]; do
  case "$1" in
    --once) once=true ;;
    --prompt) prompt=${2:?--prompt needs a text}; shift ;;
    --help | -h) sed -n '2,9p' "$0" | sed 's/^# \{0,1\}//'; exit 0 ;;
    --listen) listen=${2:?--listen needs an address}; shift ;;
    --listen=*) listen=${1#*=} ;;
    --model) model=${2:?--model needs a path}; shift ;;
    --model=*) model=${1#*=} ;;
    *) server_flags+=("$1") ;;
  esac
  shift
done

bin=build/release/bin
server=

say() { printf '==> %s\n' "$*" >&2; }

build() {
  say "building (the first build takes some minutes)"
  cmake --preset release -DTRIREME_BUILD_TESTS=OFF >&2
  cmake --build --preset release --target trireme-server trireme-worker trireme >&2
}

# The server has a session of its own, so that Ctrl-C reaches it once, through stop_server. So has what shows its log,
# which is held while the answer is streamed to the same terminal.
start_server() {
  say "starting the server on $listen"
  exec {log}> >(exec setsid cat >&2)
  log_shower=$!
  setsid "$bin/trireme-server" --model "$model" --listen "$listen" "${server_flags[@]}" 2>&"$log" &
  server=$!
  trap stop_server EXIT
  trap 'exit 130' INT
  trap 'exit 143' TERM HUP
}

stop_server() {
  trap - EXIT
  kill -CONT "$log_shower" 2>/dev/null || true
  kill -TERM "$server" 2>/dev/null || true
  wait "$server" || true
  end_log
}

end_log() {
  exec {log}>&-
  wait "$log_shower" || true
}

# Ends with the server's status if the server does not come up.
wait_until_healthy() {
  local status
  until "$bin/trireme" health --target "$listen" >/dev/null 2>&1; do
    if ! kill -0 "$server" 2>/dev/null; then
      trap - EXIT
      wait "$server" && status=1 || status=$?
      end_log
      exit "$status"
    fi
    sleep 0.2
  done
}

ask() {
  say "asking: $prompt"
  kill -STOP "$log_shower"
  python3 -c 'import json, sys; print(json.dumps([{"role": "user", "content": sys.argv[1]}]))' "$prompt" |
    "$bin/trireme" generate --target "$listen" --chat - --max-tokens 128 --temperature 0
  kill -CONT "$log_shower"
}

./deploy/install_dependencies.sh
build
[ -n "$model" ] || model=$(./deploy/fetch_demo_model.sh)
start_server
wait_until_healthy
ask
if $once; then exit 0; fi
say "serving on $listen until Ctrl-C; try: $bin/trireme chat --target $listen"
wait "$server"
