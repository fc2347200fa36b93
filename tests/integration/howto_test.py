"""The pages for newcomers name only flags, commands and routes that exist:
howto_test.py BALLAST SOURCE_DIR."""

import pathlib
import re
import subprocess
import sys
import unittest

SOURCE = pathlib.Path(sys.argv.pop())
BALLAST = sys.argv.pop()
PAGES = ["coming-from-llama-server.md", "coming-from-ollama.md"]


def ours(page):
    """The code spans of the column "Ballast" of every table."""
    spans = []
    for line in (SOURCE / "docs" / "howto" / page).read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("|") and len(cells) == 3:
            spans += re.findall(r"`([^`]+)`", cells[1])
    return spans


class HowtoTest(unittest.TestCase):
    def help(self, *command):
        return subprocess.run([BALLAST, *command, "--help"], check=True, text=True,
                              stdout=subprocess.PIPE).stdout

    def test_what_the_tables_name_exists(self):
        flags = set(re.findall(r"--[a-z-]+", self.help("serve")))
        routes = set(re.findall(r"(?:GET|POST) (/[^`?]*)`", (SOURCE / "docs/api.md").read_text()))
        routes |= {"/health"}
        commands = set(re.findall(r"^  ([a-z]+) ", self.help(), re.MULTILINE))
        for page in PAGES:
            spans = ours(page)
            self.assertGreater(len(spans), 15, page)
            for span in spans:
                if span.startswith("--"):
                    self.assertIn(span, flags, page)
                elif span.startswith("/"):
                    self.assertIn(span, routes, page)
                else:
                    self.assertEqual(span.split()[0], "ballast", (page, span))
                    self.assertIn(span.split()[1], commands, page)

    def test_settings_named_anywhere_exist(self):
        known = set(re.findall(r"BALLAST_[A-Z_]+", self.help("serve"))) | {"BALLAST_HOME"}
        names = ["SECURITY.md", "docs/howto/operate.md", *(f"docs/howto/{page}" for page in PAGES)]
        for name in names:
            for variable in re.findall(r"BALLAST_[A-Z_]+", (SOURCE / name).read_text()):
                self.assertIn(variable, known, name)

    def test_metrics_named_for_operators_exist(self):
        source = (SOURCE / "src/server/metrics.cc").read_text()
        names = re.findall(r"`(ballast_[a-z_]+)`", (SOURCE / "docs/howto/operate.md").read_text())
        self.assertTrue(names)
        for name in names:
            self.assertIn(f'"{name}"', source)


unittest.main()
