"""Runs the client tests: run_e2e.py {python,node,console,schemas,schemas-all} WORKDIR.

Makes the environment below WORKDIR (a virtual environment, npm packages), then runs the tests
against a server (see server_process.py). Exits with 77, "skipped", where pip, npm or Chromium is
missing.
"""

import os
import pathlib
import shutil
import subprocess
import sys
import venv

from server_process import ServerProcess

HERE = pathlib.Path(__file__).resolve().parent
SKIPPED = 77


def absent(reason: str) -> int:
    """Skips in the short tier; the long one (BALLAST_TEST_FULL) promised to have everything."""
    print(reason, file=sys.stderr)
    return 1 if os.environ.get("BALLAST_TEST_FULL") else SKIPPED


def run_python(work: pathlib.Path, script: str, *arguments: str) -> int:
    python = work / "venv" / "bin" / "python"
    if not python.exists():
        venv.create(work / "venv", with_pip=True)
    install = [python, "-m", "pip", "install", "-q", "-r", HERE / "requirements.txt"]
    if subprocess.run(install, check=False).returncode != 0:
        return absent("pip could not install the clients")
    return subprocess.run([python, HERE / script, *arguments], cwd=HERE, check=False).returncode


def run_node(name: str, work: pathlib.Path) -> int:
    if not shutil.which("npm"):
        return absent("npm is not installed")
    target = work / name
    target.mkdir(parents=True, exist_ok=True)
    for file in (HERE / name).iterdir():
        if file.is_file():
            shutil.copy(file, target)
    if subprocess.run(["npm", "ci", "--no-audit", "--no-fund"], cwd=target, check=False).returncode:
        return absent("npm could not install the clients")
    tests = sorted(test.name for test in (HERE / name).glob("*.test.mjs"))
    with ServerProcess(slow=True) as server:
        environment = {**os.environ, "BALLAST_URL": server.url,
                       "BALLAST_WEB": str(HERE.parents[1] / "web")}
        # One after the other: they share the server, and look at what runs there.
        return subprocess.run(["node", "--test", "--test-concurrency=1", *tests], cwd=target,
                              env=environment, check=False).returncode


def main() -> int:
    kind, work = sys.argv[1], pathlib.Path(sys.argv[2]).absolute()
    work.mkdir(parents=True, exist_ok=True)
    if kind == "python":
        codes = (run_python(work, f"test_{name}_python.py")
                 for name in ("openai", "surfaces", "operation", "openapi"))
        return next((code for code in codes if code), 0)
    if kind == "schemas":
        return run_python(work, "schema_generation.py", "12", "1")
    if kind == "schemas-all":
        return run_python(work, "schema_generation.py")
    if kind == "node":
        return run_node("openai_node", work)
    if kind == "console":
        if not os.path.exists(os.environ.get("CHROMIUM", "/usr/bin/chromium")):
            return SKIPPED
        return run_node("console", work)
    print(__doc__)
    return 2


sys.exit(main())
