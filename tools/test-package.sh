#!/usr/bin/env bash
# Installs the package into a fresh Debian 12 and runs it: test-package.sh DEB [ROOT]. ROOT is the
# tree of a bare Debian 12, which is copied; without it debootstrap makes one. Needs root.
set -euo pipefail
deb=$(realpath "$1")
work=$(mktemp -d)
fresh=$work/root
cleanup() {
  mountpoint -q "$fresh/proc" && umount "$fresh/proc"
  rm -rf --one-file-system "$work"
}
trap cleanup EXIT
if [ $# -gt 1 ]; then
  mkdir "$fresh"
  tar -C "$2" --one-file-system --exclude=./proc --exclude=./sys --exclude=./tmp \
    --exclude=./root --exclude=./home --exclude=./var/cache -cf - . | tar -C "$fresh" -xf -
else
  debootstrap --variant=minbase bookworm "$fresh" >/dev/null
fi
mkdir -p "$fresh/proc" "$fresh/tmp" "$fresh/root" "$fresh/var/cache/apt/archives/partial"
chmod 1777 "$fresh/tmp"
mount -t proc proc "$fresh/proc" 2>/dev/null || mount --bind /proc "$fresh/proc"
[ -e "$fresh/etc/resolv.conf" ] || cp /etc/resolv.conf "$fresh/etc/" 2>/dev/null || true
cp "$deb" "$fresh/tmp/ballast.deb"
inside() { chroot "$fresh" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root "$@"; }

inside apt-get update -q >/dev/null
inside env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends \
  /tmp/ballast.deb >/dev/null
inside ballast --version
inside ballast config >/dev/null
inside getent passwd ballast >/dev/null
# A bare system has no model yet, which is a warning.
inside ballast doctor
for file in /lib/systemd/system/ballast.service /usr/share/man/man1/ballast.1.gz \
  /usr/share/bash-completion/completions/ballast /etc/ballast/ballast.toml \
  /usr/share/doc/ballast/copyright; do
  # Slim images leave out documentation on purpose.
  test -e "$fresh$file" || grep -rqs 'path-exclude' "$fresh/etc/dpkg/dpkg.cfg.d" ||
    { echo "test-package: $file is missing" >&2; exit 1; }
done
inside apt-get purge -y -q ballast >/dev/null
test ! -e "$fresh/usr/bin/ballast" && test ! -e "$fresh/etc/ballast/ballast.toml"
echo "test-package: ok"
