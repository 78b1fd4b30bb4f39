#!/bin/sh
# Makes a database with two captures and a wrapped server: make.sh PROGRAM DATABASE
set -eu
[ $# -eq 2 ] || { echo "usage: $0 PROGRAM DATABASE" >&2; exit 2; }
program=$(realpath "$1") database=$(realpath "$2")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# The database holds the names as they are given here.
cd "$(dirname "$0")/../../samples"
for sample in weather helpdesk; do
  "$program" --db "$database" read --save "$sample/capture.pcapng" >"$folder/read"
done

# The server answers every request, which is a line with an id. The client waits for each answer, so that the order is always the same.
cat >"$folder/server.sh" <<'SERVER'
while read -r line; do
  case $line in *'"id":'*) id=${line#*'"id":'} id=${id%%,*} ;; *) continue ;; esac
  case $line in
    *'"initialize"'*) result='{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"adder","version":"1.0"}}' ;;
    *'"tools/list"'*) result='{"tools":[{"name":"add","inputSchema":{"type":"object"}}]}' ;;
    *) result='{"content":[{"type":"text","text":"3"}]}' ;;
  esac
  echo "{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":$result}"
done
SERVER
mkfifo "$folder/in" "$folder/out"
# The directory of the server is recorded too.
cd /
"$program" --db "$database" wrap --name adder -- sh -c "$(cat "$folder/server.sh")" <"$folder/in" >"$folder/out" &
exec 3>"$folder/in" 4<"$folder/out"
send() { echo "$1" >&3; }
ask() { send "$1"; read -r answer <&4; }
ask '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"maker","version":"1.0"}}}'
send '{"jsonrpc":"2.0","method":"notifications/initialized"}'
ask '{"jsonrpc":"2.0","id":2,"method":"tools/list"}'
ask '{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"add","arguments":{"a":1,"b":2}}}'
exec 3>&-
wait $!
