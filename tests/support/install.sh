#!/usr/bin/env bash
# Installs the packages of tests/packages.txt that are missing. Does nothing, and asks no network,
# when all are there. Works as root without sudo, and with sudo otherwise.
#
#   bash tests/support/install.sh
set -eu

list="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)/packages.txt"

# Names only: comments and blank lines dropped.
wanted() { sed -e 's/#.*//' -e 's/[[:space:]]//g' -e '/^$/d' "$list"; }

installed() {
  [ "$(dpkg-query --show --showformat='${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

if ! command -v apt-get >/dev/null || ! command -v dpkg-query >/dev/null; then
  echo "install.sh: this is not a Debian system (no apt-get), so nothing was installed." >&2
  echo "install.sh: the build needs your system's packages for: $(wanted | tr '\n' ' ')" >&2
  exit 0 # what is missing is named by CMake
fi

missing=()
for package in $(wanted); do
  installed "$package" || missing+=("$package")
done
[ "${#missing[@]}" -gt 0 ] || exit 0

as_root=()
if [ "$(id -u)" -ne 0 ]; then
  if ! command -v sudo >/dev/null; then
    echo "install.sh: missing packages: ${missing[*]}" >&2
    echo "install.sh: run this as root once, or install sudo." >&2
    exit 1
  fi
  as_root=(sudo)
fi

echo "install.sh: installing ${missing[*]}" >&2
"${as_root[@]}" apt-get -qq update >&2
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq install -y \
  --no-install-recommends "${missing[@]}" >&2
