#!/usr/bin/env bash
# Installs a package in a clean Debian and uses it there, as a new user would. Needs root and debootstrap.
#
#   .github/packaging/try-deb.sh target/debian/mcptap_VERSION_ARCHITECTURE.deb [SUITE] [MIRROR]
#
# The clean Debian has nothing of this machine but the package and one capture. What the package depends on comes from
# the mirror.
set -euo pipefail
cd "$(dirname "$0")/../.."
package=$(realpath "$1")
suite=${2:-bookworm}
mirror=${3:-http://deb.debian.org/debian}
root=$(mktemp -d /var/tmp/mcptap-debian.XXXXXX)
chmod 755 "$root"
trap 'umount "$root/proc" 2>/dev/null || true; rm -rf --one-file-system "$root"' EXIT

echo "== a clean Debian $suite"
debootstrap --variant=minbase "$suite" "$root" "$mirror" > "$root.log" 2>&1 || { tail "$root.log"; exit 1; }
rm -f "$root.log"
cp "$package" "$root/tmp/mcptap.deb"
cp samples/weather/capture.pcapng "$root/tmp/trace.pcapng"
cp /etc/resolv.conf "$root/etc/resolv.conf"
mount -t proc proc "$root/proc"
inside() { chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root DEBIAN_FRONTEND=noninteractive "$@"; }
inside apt-get update -qq

began=$SECONDS
echo "== the package"
inside apt-get install -y -qq -o Dpkg::Use-Pty=0 --no-install-recommends /tmp/mcptap.deb > /dev/null
inside dpkg --status mcptap | grep -E '^(Version|Depends|Installed-Size):'

echo "== a capture"
inside mcptap read /tmp/trace.pcapng | tee "$root/tmp/out"
grep -q '3 calls (3 ok, 0 errors, 0 unanswered)' "$root/tmp/out"
echo "== $((SECONDS - began)) s from the package to the messages"

echo "== what else belongs to it"
inside mcptap demo --text > "$root/tmp/out" 2>&1
grep -q 'never answered tools/call get_weather' "$root/tmp/out"
printf '{"jsonrpc":"2.0","id":1,"method":"ping"}\n' | inside mcptap wrap --name cat -- cat > "$root/tmp/out"
grep -q '"method":"ping"' "$root/tmp/out"
inside mcptap sessions | grep cat
for page in mcptap.1 mcptap-read.1; do
  inside test -s "/usr/share/man/man1/$page.gz" || inside grep -q 'path-exclude.*man' -r /etc/dpkg || { echo "no $page"; exit 1; }
done
inside test -s /usr/share/bash-completion/completions/mcptap
inside sh -n /usr/share/bash-completion/completions/mcptap 2>/dev/null || inside bash -n /usr/share/bash-completion/completions/mcptap
inside apt-get remove -y -qq -o Dpkg::Use-Pty=0 mcptap > /dev/null
if inside test -e /usr/bin/mcptap; then echo "the program is still there"; exit 1; fi
echo "== all is well"
