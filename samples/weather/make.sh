#!/bin/sh
# Records capture.pcapng anew. Needs tcpdump with the right to capture (root), python3 and: pip install 'mcp>=1.20,<2'
# PYTHON names the interpreter that has the package.
set -eu
exec "${PYTHON:-python3}" "$(dirname "$0")/make.py" "$@"
