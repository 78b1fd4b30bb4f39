#!/bin/sh
# Records stdio.pcapng anew, with Python's standard library and mcptap (or what MCPTAP names), into a database that is thrown away.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
mcptap=${MCPTAP:-mcptap} python=${PYTHON:-python3}
db=$(mktemp -d)
trap 'rm -r "$db"' EXIT
"$python" "$here/host.py" "$mcptap" wrap --db "$db/mcptap.db" --name notes -- "$python" "$here/notes.py"
"$mcptap" export latest --db "$db/mcptap.db" --format pcapng -o "$here/stdio.pcapng"
