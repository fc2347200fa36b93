#!/usr/bin/env bash
# Makes dist/ballast-<version>-linux-x86_64.tar.gz and dist/ballast_<version>_amd64.deb from a built
# program: package.sh BUILD_DIRECTORY. The same program and commit give the same bytes.
set -euo pipefail
cd "$(dirname "$0")/.."
program=$1/ballast
version=$("$program" --version | cut -d' ' -f2)
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || echo 1767225600)}
export SOURCE_DATE_EPOCH
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# dpkg-deb takes the owner from --root-owner-group and the modes from here.
umask 022

root=$work/root
doc=$root/usr/share/doc/ballast
put() { install -D -m 644 "$1" "$2"; }
install -D -m 755 "$program" "$root/usr/bin/ballast"
strip --strip-unneeded "$root/usr/bin/ballast"
mkdir -p "$root/usr/share/man/man1" "$root/usr/share/bash-completion/completions" \
  "$root/usr/share/zsh/vendor-completions" "$root/usr/share/fish/vendor_completions.d"
"$program" manual | gzip -9n >"$root/usr/share/man/man1/ballast.1.gz"
"$program" completion bash >"$root/usr/share/bash-completion/completions/ballast"
"$program" completion zsh >"$root/usr/share/zsh/vendor-completions/_ballast"
"$program" completion fish >"$root/usr/share/fish/vendor_completions.d/ballast.fish"
put deploy/ballast.service "$root/lib/systemd/system/ballast.service"
put deploy/ballast.toml "$root/etc/ballast/ballast.toml"
put deploy/ballast.toml "$doc/examples/ballast.toml"
put deploy/grafana/ballast.json "$doc/examples/grafana.json"
put README.md "$doc/README.md"
gzip -9n <CHANGELOG.md >"$doc/changelog.gz"
put LICENSE "$doc/copyright"

# What the program links against, as packages.
mkdir -p "$work/shlibs/debian"
printf 'Source: ballast\n\nPackage: ballast\nArchitecture: amd64\n' >"$work/shlibs/debian/control"
depends=$(cd "$work/shlibs" && dpkg-shlibdeps -O "$root/usr/bin/ballast" 2>/dev/null |
  sed -n 's/^shlibs:Depends=//p')
[ -n "$depends" ] || { echo "package: dpkg-shlibdeps found no dependencies" >&2; exit 1; }

mkdir -p dist
name=ballast-$version-linux-x86_64
tree=$work/$name
mkdir -p "$tree"
cp -r "$root/usr/bin" "$root/usr/share" "$tree/"
mkdir -p "$tree/lib/systemd/system"
cp "$root/lib/systemd/system/ballast.service" "$tree/lib/systemd/system/"
printf 'Built for Debian 12. Needs these packages or their libraries:\n%s\n' \
  "$(echo "$depends" | tr ',' '\n' | sed 's/^ *//')" >"$tree/REQUIRES"
tar -C "$work" --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" \
  -cf - "$name" | gzip -9n >"dist/$name.tar.gz"

mkdir "$root/DEBIAN"
for script in postinst prerm postrm; do
  install -m 755 "deploy/debian/$script" "$root/DEBIAN/$script"
done
echo /etc/ballast/ballast.toml >"$root/DEBIAN/conffiles"
cat >"$root/DEBIAN/control" <<CONTROL
Package: ballast
Version: $version
Architecture: amd64
Section: net
Priority: optional
Maintainer: The Ballast authors <ballast@localhost>
Installed-Size: $(du -sk --exclude=DEBIAN "$root" | cut -f1)
Depends: adduser, $depends
Recommends: ca-certificates
Suggests: python3-pip
Description: LLM server for one machine's memory
 Serves one model over HTTP with the APIs of OpenAI and Anthropic, a console
 and metrics. Runs on the CPU; the same bits come out whatever the batch and
 the instruction set.
CONTROL
find "$root" -newermt "@$SOURCE_DATE_EPOCH" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
dpkg-deb --root-owner-group -Zxz --build "$root" "dist/ballast_${version}_amd64.deb" >/dev/null
(cd dist && sha256sum "$name.tar.gz" "ballast_${version}_amd64.deb" >SHA256SUMS && cat SHA256SUMS)
