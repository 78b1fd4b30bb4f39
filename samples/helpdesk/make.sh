#!/bin/sh
# Records capture.pcapng anew. Needs python3, and tcpdump with the right to capture (root).
# To record the STDIO server too: ./make.sh --wrap mcptap wrap --name Directorio --
set -eu
exec "${PYTHON:-python3}" "$(dirname "$0")/make.py" "$@"
