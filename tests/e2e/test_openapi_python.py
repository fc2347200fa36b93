"""/openapi.json, judged by openapi-spec-validator and held against what the server does."""

import json
import pathlib
import re
import unittest
import urllib.error
import urllib.request

from openapi_spec_validator import OpenAPIV31SpecValidator

from server_process import ServerProcess

API = pathlib.Path(__file__).resolve().parents[2] / "docs" / "api.md"


class OpenApi(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = cls.enterClassContext(ServerProcess())
        with urllib.request.urlopen(cls.server.url + "/openapi.json", timeout=60) as reply:
            cls.document = json.loads(reply.read())

    def code(self, path, body):
        """The error code of a POST, or None if it succeeds."""
        request = urllib.request.Request(self.server.url + path, json.dumps(body).encode(),
                                         {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=120):
                return None
        except urllib.error.HTTPError as error:
            return error.read().decode()

    def test_the_document_is_valid(self):
        OpenAPIV31SpecValidator(self.document).validate()
        self.assertEqual(self.document["openapi"], "3.1.0")

    def test_it_has_the_published_routes(self):
        published = {(method.lower(), path.split("?")[0]) for method, path in
                     re.findall(r"`(GET|POST) (/[^` …]*)`", API.read_text())}
        described = {(method, path) for path, item in self.document["paths"].items()
                     for method in item}
        self.assertGreater(len(described), 12)
        self.assertLessEqual(published - {("get", "/")}, described)

    def test_fields_are_what_the_server_makes_of_them(self):
        fields = self.document["components"]["schemas"]["CompletionsBody"]["properties"]
        base = {"prompt": "a", "max_tokens": 1}
        self.assertEqual(fields["prompt"]["x-ballast"], "acts")
        refused = [name for name, field in fields.items() if field["x-ballast"] == "refused"]
        self.assertTrue(refused)
        for name in refused:
            self.assertIn("unsupported_field", self.code("/v1/completions", base | {name: "zz"}))
        for name, field in fields.items():
            if field["x-ballast"] == "no_effect":
                self.assertIsNone(self.code("/v1/completions", base | {name: "zz"}), name)
        self.assertIn("unknown_field", self.code("/v1/completions", base | {"no_such_field": 1}))


if __name__ == "__main__":
    unittest.main()
