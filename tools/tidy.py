#!/usr/bin/env python3
"""Style as a test: layers, sizes, columns, formatting.

Fails on an #include that crosses the layer table, a file over 1,000 lines, a function over 70
lines that is not on the shrinking exception list, a line over 100 columns, or a file that
clang-format 19 would change. No arguments; prints one line a finding; exit status 1 if any.
"""

import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
MAX_FILE_LINES = 1000
MAX_FUNCTION_LINES = 70
MAX_COLUMNS = 100

# What each folder may include directly; what those rows reach is allowed too, and base always is.
LAYERS = {
    "base": [],
    "platform": ["base"],
    "tensor": ["platform"],
    "kernels": ["tensor", "platform"],
    "memory": ["platform"],
    "text": ["base"],
    "comm": ["tensor", "platform"],
    "http": ["base"],
    "catalog": ["base", "platform"],
    "weights": ["tensor", "memory"],
    "kv": ["tensor", "memory"],
    "moe": ["weights"],
    "model": ["kernels", "comm", "weights", "kv", "moe", "text"],
    "engine": ["model", "text"],
    "agents": ["engine/client.h"],
    "server": ["http", "engine/client.h", "engine/histograms.h", "agents", "text"],
    "replay": ["http"],
    "deploy": ["base", "platform"],
    "train": ["weights", "text"],
    "prove": ["engine", "replay"],
    "cli": ["*"],
}

# Functions over the limit, with their length when listed. Entries may shrink or go, never grow.
FUNCTION_EXCEPTIONS_FILE = ROOT / "tools" / "tidy_exceptions.txt"

INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"')


def reachable(layer):
    """Folders and single headers that `layer` may include."""
    seen, stack = set(), [layer]
    while stack:
        name = stack.pop()
        for target in LAYERS.get(name, []):
            if target not in seen:
                seen.add(target)
                if "/" not in target:
                    stack.append(target)
    return seen | {layer, "base"}


def check_layers(path, lines, findings):
    parts = path.relative_to(ROOT).parts
    if parts[0] != "src":
        return
    layer = parts[1]
    if layer not in LAYERS:
        findings.append(f"{path}: folder src/{layer} is not in the layer table")
        return
    allowed = reachable(layer)
    if "*" in allowed:
        return
    is_test = path.stem.endswith("_test") or "testing" in parts
    for number, line in enumerate(lines, 1):
        match = INCLUDE.match(line)
        if not match or "/" not in match.group(1):
            continue
        target = match.group(1)
        folder = target.split("/")[0]
        if folder not in LAYERS or folder in allowed or target in allowed:
            continue
        # What engine/client.h itself includes comes with it; tests may look one layer up.
        if is_test:
            continue
        findings.append(f"{path}:{number}: src/{layer} may not include {target}")


def function_lengths(lines):
    """Yields (name line number, length) of top-level functions, by indentation of the closing brace."""
    start = None
    for number, line in enumerate(lines, 1):
        if start is None and line and not line[0].isspace() and line.rstrip().endswith("{"):
            head = line
            back = number - 2
            while back >= 0 and "(" not in head and lines[back] and not lines[back].startswith("}"):
                head = lines[back] + head
                back -= 1
            if "(" in head and not re.match(r"(namespace|struct|class|enum|union|extern)\b", head):
                start = number
        elif start is not None and line.startswith("}"):
            yield start, number - start + 1
            start = None


def load_exceptions():
    exceptions = {}
    if FUNCTION_EXCEPTIONS_FILE.exists():
        for line in FUNCTION_EXCEPTIONS_FILE.read_text().splitlines():
            if line.strip() and not line.startswith("#"):
                name, length = line.rsplit(" ", 1)
                exceptions[name.strip()] = int(length)
    return exceptions


def check_sizes(path, lines, exceptions, findings):
    relative = str(path.relative_to(ROOT))
    if len(lines) > MAX_FILE_LINES:
        findings.append(f"{path}: {len(lines)} lines, the limit is {MAX_FILE_LINES}")
    for start, length in function_lengths(lines):
        if length > max(MAX_FUNCTION_LINES, exceptions.get(relative, 0)):
            findings.append(f"{path}:{start}: function of {length} lines, the limit is "
                            f"{MAX_FUNCTION_LINES}")
    for number, line in enumerate(lines, 1):
        if len(line) > MAX_COLUMNS and "http" not in line and "R\"" not in line:
            findings.append(f"{path}:{number}: {len(line)} columns, the limit is {MAX_COLUMNS}")


def check_format(paths, findings):
    tool = shutil.which("clang-format-19")
    if tool is None:
        print("tidy: clang-format-19 is not installed; formatting is not checked")
        return
    result = subprocess.run([tool, "--dry-run", "-Werror", *map(str, paths)],
                            capture_output=True, text=True, check=False)
    files = {line.split(":")[0] for line in result.stderr.splitlines() if "error:" in line}
    findings.extend(f"{name}: clang-format-19 would change it" for name in sorted(files))


def main():
    listed = subprocess.run(["git", "ls-files", "*.cc", "*.h"], cwd=ROOT, capture_output=True,
                            text=True, check=True).stdout.split()
    paths = [ROOT / name for name in listed if (ROOT / name).exists()]
    findings = []
    exceptions = load_exceptions()
    for path in paths:
        lines = path.read_text(encoding="utf-8").splitlines()
        check_layers(path, lines, findings)
        check_sizes(path, lines, exceptions, findings)
    check_format(paths, findings)
    for finding in findings:
        print(finding)
    print(f"tidy: {len(paths)} files, {len(findings)} findings")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
