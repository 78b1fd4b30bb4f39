#!/bin/sh
# Compiles probe.bpf.c. Needs clang and libbpf-dev. Without an argument it replaces the object file
# that is checked in; otherwise it writes to the file named.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
out=${1:-$here/probe.bpf.o}
cd "$here"
clang -target bpf -mcpu=v3 -O2 -g -Wall -Werror -fdebug-compilation-dir . \
  -I"/usr/include/$(uname -m)-linux-gnu" -c probe.bpf.c -o "$out"
# The sections of DWARF are of no use at run time. BTF stays.
llvm-strip -g "$out"
