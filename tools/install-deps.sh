#!/usr/bin/env bash
# Installs the Debian packages named in a list file, and only those that are missing.
set -euo pipefail
list=$1

have() {
  # A tool that is on PATH by other means (a newer Node, say) need not come from Debian.
  case $1 in
    nodejs) command -v node >/dev/null && return 0 ;;
    npm | cmake | git | python3 | ccache) command -v "$1" >/dev/null && return 0 ;;
    ninja-build) command -v ninja >/dev/null && return 0 ;;
    python3-pip) python3 -m pip --version >/dev/null 2>&1 && return 0 ;;
    python3-venv) python3 -m venv --help >/dev/null 2>&1 && python3 -c 'import ensurepip' \
      2>/dev/null && return 0 ;;
  esac
  dpkg-query -W -f '${Status}' "$1" 2>/dev/null | grep -q '^install ok installed'
}

missing=()
while read -r package; do
  case $package in '' | '#'*) continue ;; esac
  have "$package" || missing+=("$package")
done <"$list"
[ ${#missing[@]} -eq 0 ] && exit 0

if ! command -v apt-get >/dev/null; then
  echo "install-deps: these packages are missing and apt-get is not here: ${missing[*]}" >&2
  exit 1
fi
sudo=
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo >/dev/null || { echo "install-deps: run as root or install sudo" >&2; exit 1; }
  sudo=sudo
fi
echo "installing: ${missing[*]}"
$sudo apt-get update -q >/dev/null
DEBIAN_FRONTEND=noninteractive $sudo apt-get install -y -q --no-install-recommends \
  "${missing[@]}" >/dev/null
