#!/usr/bin/env bash
# The long tier: every real model, full matrices, sanitizers, g++, long fuzzing.
# FUZZ_SECONDS a target defaults to ten minutes.
set -euo pipefail
cd "$(dirname "$0")/.."
build=${1:-build}
fuzz_seconds=${FUZZ_SECONDS:-600}

for model in qwen2.5-coder-0.5b-instruct qwen2.5-coder-1.5b-instruct gemma-3-270m; do
  "$build/ballast" pull "$model"
done
BALLAST_TEST_FULL=1 ctest --test-dir "$build" --output-on-failure --timeout 7200

make package BUILD="$build"
if [ "$(id -u)" -eq 0 ] && command -v debootstrap >/dev/null; then
  tools/test-package.sh dist/ballast_*_amd64.deb
else
  echo "test-full: the package is not installed anywhere: that needs root and debootstrap" >&2
fi

cmake --preset gcc >/dev/null && cmake --build --preset gcc -j "$(nproc)"
for preset in asan tsan; do
  cmake --preset $preset >/dev/null && cmake --build --preset $preset -j "$(nproc)"
  ctest --test-dir "build-$preset" --output-on-failure -LE full --timeout 3600
done

cmake --preset fuzz >/dev/null && cmake --build --preset fuzz -j "$(nproc)"
for target in build-fuzz/fuzz/fuzz_*; do
  [ -x "$target" ] && [ -f "$target" ] || continue
  name=$(basename "$target")
  corpus=$(mktemp -d)
  "$target" -max_total_time="$fuzz_seconds" -rss_limit_mb=4096 -timeout=20 "$corpus" \
    "fuzz/corpus/${name#fuzz_}"
  rm -rf "$corpus"
done
