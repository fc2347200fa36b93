"""The console's committed build belongs to its sources: their hash is the one that the build wrote."""

import hashlib
import pathlib
import sys

ROOTS = ["index.html", "package.json", "package-lock.json", "vite.config.js", "src", "public"]


def main() -> int:
    web = pathlib.Path(sys.argv[1])
    files = []
    for root in ROOTS:
        path = web / root
        found = path.rglob("*") if path.is_dir() else [path]
        files += [f.relative_to(web).as_posix() for f in found if f.is_file()]
    digest = hashlib.sha256()
    for name in sorted(files):
        content = hashlib.sha256((web / name).read_bytes()).hexdigest()
        digest.update(f"{content}  {name}\n".encode())
    expected = (web / "dist" / "source.sha256").read_text().strip()
    if digest.hexdigest() != expected:
        print(f"web/dist was built from other sources ({expected}, now {digest.hexdigest()}); "
              "run: cd web && npm ci && npm run build")
        return 1
    return 0


sys.exit(main())
