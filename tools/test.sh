#!/usr/bin/env bash
# The short tier of the tests: style, unit and integration tests, fuzz corpora, client tests.
# The default model is fetched first (cached); tests that need another one say so and are skipped.
set -euo pipefail
cd "$(dirname "$0")/.."
build=${1:-build}

python3 tools/tidy.py
cmake --build "$build" -j "$(nproc)"
"$build/ballast" pull smollm2-135m-instruct
ctest --test-dir "$build" --output-on-failure -LE full --timeout 900
