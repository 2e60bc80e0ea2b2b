#!/bin/bash
# packages_test.sh BUILD: cpack makes the three Debian packages of a build, whole and each with what belongs to it.
set -eu
build=$1
if ! command -v dpkg-deb >/dev/null || ! command -v dpkg-shlibdeps >/dev/null; then
  echo "packages_test.sh: skipped, there is no dpkg-dev"
  exit 77
fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cpack -G DEB --config "$build/CPackConfig.cmake" -B "$folder" >"$folder/log" 2>&1 || { cat "$folder/log"; exit 1; }
fail() {
  echo "packages_test.sh: $*" >&2
  exit 1
}
has() {  # PACKAGE FILE...
  local package=$1 listing
  shift
  listing=$(dpkg-deb -c "$folder/$package"_*.deb | awk '{print $6}')
  for file in "$@"; do
    grep -qx "./usr/$file" <<<"$listing" || fail "$package has no /usr/$file: $listing"
  done
}
has luthier bin/luthier share/man/man1/luthier.1 share/bash-completion/completions/luthier \
  share/zsh/site-functions/_luthier share/fish/vendor_completions.d/luthier.fish
has luthier-server bin/luthierd lib/systemd/system/luthierd.service
has luthier-worker bin/luthier-worker lib/systemd/system/luthier-worker.service
dpkg-deb -f "$folder"/luthier_*.deb Depends | grep -q 'luthier-worker.*libgrpc' || fail "luthier's dependencies"
for package in luthier luthier-server luthier-worker; do dpkg-deb -x "$folder/$package"_*.deb "$folder/root"; done
"$folder/root/usr/bin/luthier" --version | grep -q '^luthier [0-9]' || fail "luthier does not start"
grep -q '^ExecStart=/usr/bin/luthierd ' "$folder/root/usr/lib/systemd/system/luthierd.service" || fail "the unit's path"
grep -q '^\.SS luthier study update' "$folder/root/usr/share/man/man1/luthier.1" || fail "the manual page"
if command -v groff >/dev/null; then
  warnings=$(groff -man -Tascii -ww "$folder/root/usr/share/man/man1/luthier.1" 2>&1 >/dev/null | grep -v 'cannot adjust\|break ' || true)
  [ -z "$warnings" ] || fail "groff warns: $warnings"
fi
