#!/bin/sh
# Installs the engines that read datasets, and an S3 server, in the versions pinned here, into a folder: target/engines unless given. It takes about 2 GB.
# Needs python3 with its venv module; Spark needs Java (apt install default-jre-headless). Then: MCPTAP_ENGINES=target/engines cargo test --locked --features full fleet
set -eu
here=$(cd "$(dirname "$0")" && pwd)
engines=${1:-$here/../../target/engines}
pinned=$(sha256sum <"$here/requirements.txt")
[ "$(cat "$engines/installed" 2>/dev/null)" = "$pinned" ] && exit 0
rm -rf "$engines"
mkdir -p "$engines"
python3 -m venv "$engines/venv"
"$engines/venv/bin/pip" install --quiet --disable-pip-version-check --no-deps -r "$here/requirements.txt"
echo "$pinned" >"$engines/installed"
