#!/usr/bin/env bash
# Installs the packages of packages.txt (and any named on the command line).
# Idempotent; needs root or sudo. Sources that apt lacks are added under the
# address of the mirror that it already uses: bookworm-security for LLVM 22, and
# two backports of which only Catch2 and qemu-user are ever taken.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
mapfile -t packages < <(sed 's/#.*//' "$here/packages.txt" | grep -o '[^[:space:]]*')
packages+=("$@")

missing=()
for p in "${packages[@]}"; do
  dpkg-query -W -f '${Status}\n' "$p" 2>/dev/null | grep -q '^install ok installed' || missing+=("$p")
done
[[ ${#missing[@]} -gt 0 ]] || { echo "apt: all ${#packages[@]} packages are installed"; exit 0; }

root=()
if [[ $EUID -ne 0 ]]; then
  command -v sudo >/dev/null || { echo "setup: needs root or sudo to install: ${missing[*]}" >&2; exit 1; }
  root=(sudo)
fi
. /etc/os-release
[[ ${VERSION_CODENAME:-} == bookworm ]] ||
  { echo "setup: written for Debian 12 (bookworm), this is ${PRETTY_NAME:-unknown}; install by hand: ${missing[*]}" >&2; exit 1; }

# "ADDRESS SUITE" of every source of Debian's main component.
sources() { apt-get indextargets --format '$(REPO_URI) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' | awk '$3 == "main" {sub("/$", "", $1); print $1, $2}' | sort -u; }
mirror=$(sources | awk '$2 == "bookworm" {print $1; exit}')
[[ -n $mirror ]] || { echo "setup: apt has no source for bookworm main" >&2; exit 1; }

add_source() { # SUITE ADDRESS
  # Another source may provide it; twice with another key would be an error of apt.
  sources | awk -v s="$1" '$2 == s {found = 1} END {exit !found}' && return
  printf 'Types: deb\nURIs: %s\nSuites: %s\nComponents: main\nSigned-By: /usr/share/keyrings/debian-archive-keyring.gpg\n' "$2" "$1" |
    "${root[@]}" tee "/etc/apt/sources.list.d/tessera-$1.sources" >/dev/null
}
add_source bookworm-security "${mirror%/debian}/debian-security"
add_source bookworm-backports "$mirror"
add_source trixie-backports "$mirror"
"${root[@]}" tee /etc/apt/preferences.d/tessera >/dev/null <<'PINS'
Package: *
Pin: release n=trixie-backports
Pin-Priority: -1

Package: qemu-user
Pin: release n=trixie-backports
Pin-Priority: 500

Package: libcatch2-dev
Pin: release n=bookworm-backports
Pin-Priority: 990
PINS

echo "apt: installing ${#missing[@]} packages"
log=$(mktemp)
# A source that has nothing to do with us may fail to update; what matters is the installation.
"${root[@]}" apt-get -q update >"$log" 2>&1 </dev/null || echo "apt: update had errors, trying to install all the same"
if ! "${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -y install --no-install-recommends "${missing[@]}" >>"$log" 2>&1 </dev/null; then
  tail -n 40 "$log" >&2; echo "setup: apt failed, whole log in $log" >&2; exit 1
fi
rm -f "$log"
