#!/usr/bin/env bash
# Makes target/dist/mcptap-VERSION-TARGET.tar.gz with the program, its man pages, completions and licences.
#
#   .github/packaging/archive.sh TARGET        for example x86_64-unknown-linux-gnu
#
# A target with musl gets no libpcap, so it lacks "sniff", "attach", "run" and "wireshark", and it has no
# object storage. PROFILE chooses another profile than dist.
set -euo pipefail
cd "$(dirname "$0")/../.."
target=$1
profile=${PROFILE:-dist}
case $target in
  *-musl) features=(--no-default-features --features 'agents http jemalloc parquet schema tui') ;;
  *) features=(--features full) ;;
esac
# Linux on ARM has pages of 4, 16 or 64 KB. jemalloc runs with smaller pages than it was built for, not with larger ones.
case $target in aarch64-*-linux-*) export JEMALLOC_SYS_WITH_LG_PAGE=16 ;; esac
folder=$profile
[ "$profile" = dev ] && folder=debug
cargo build --locked --profile "$profile" --target "$target" "${features[@]}" --bin mcptap
cargo run --locked "${features[@]}" --example package-files -- target/package-files

version=$(cargo metadata --locked --no-deps --format-version 1 | sed -E 's/.*"name":"mcptap","version":"([^"]+)".*/\1/')
name=mcptap-$version-$target
rm -rf "target/dist/$name"
mkdir -p "target/dist/$name"
cp "target/$target/$folder/mcptap" README.md docs/CHANGELOG.md LICENSE-APACHE LICENSE-MIT "target/dist/$name"
cp -r target/package-files "target/dist/$name/share"
tar -C target/dist -czf "target/dist/$name.tar.gz" "$name"
cd target/dist
# macOS has only the second.
if command -v sha256sum > /dev/null; then sha256sum "$name.tar.gz"; else shasum -a 256 "$name.tar.gz"; fi > "$name.tar.gz.sha256"
rm -r "$name"
ls -l "$name".*
