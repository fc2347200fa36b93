"""/openapi.json, judged by openapi-spec-validator and held against what the server does."""

import json
import pathlib
import re
import unittest
import urllib.error
import urllib.request

from openapi_spec_validator import OpenAPIV31SpecValidator

from server_process import MODEL, ServerProcess

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

    def schema_of(self, operation):
        reference = operation["requestBody"]["content"]["application/json"]["schema"]["$ref"]
        return self.document["components"]["schemas"][reference.rsplit("/", 1)[1]]

    def bodies(self):
        """(path, schema, a small body that is accepted) of every POST."""
        turns = [{"role": "user", "content": "a"}]
        values = {"messages": turns, "prompt": "a", "input": "a", "content": "a", "tokens": [1],
                  "model": MODEL, "max_tokens": 1, "max_output_tokens": 1}
        for path, item in self.document["paths"].items():
            if "post" not in item:
                continue
            schema = self.schema_of(item["post"])
            short = {"max_tokens", "max_output_tokens"} & schema["properties"].keys()
            yield path, schema, {name: values[name] for name in {*schema["required"], *short}}

    def test_required_fields_are_required(self):
        for path, schema, body in self.bodies():
            self.assertTrue(schema["required"], path)
            self.assertIsNone(self.code(path, body), path)
            for name in schema["required"]:
                without = {key: value for key, value in body.items() if key != name}
                self.assertIn("missing" if "messages" in path else "missing_field",
                              self.code(path, without), (path, name))
            # Without a limit the reply would go on until the context is full.
            for name in schema["properties"].keys() - body.keys():
                self.assertIsNone(self.code(path, body | {name: None}), (path, name))

    def test_values_beyond_the_types_are_refused(self):
        samples = {"string": "zz", "array": [[1.5]], "object": {"zz": 1}, "boolean": True,
                   "number": 1.5}
        tried = 0
        for path, schema, body in self.bodies():
            for name, field in schema["properties"].items():
                types = field.get("type")
                if types is None:
                    continue
                types = {types} if isinstance(types, str) else set(types)
                wrong = [value for kind, value in samples.items() if kind not in types]
                companions = {"stream": True} if name == "stream_options" else {}
                companions |= {"logprobs": True} if name == "top_logprobs" else {}
                for limit, over in (("minimum", -1), ("maximum", 1)):
                    if limit in field:
                        wrong.append(field[limit] + over)
                if "exclusiveMinimum" in field:
                    wrong.append(field["exclusiveMinimum"])
                wrong += ["zz"] if "enum" in field else []
                for value in wrong:
                    text = self.code(path, body | companions | {name: value})
                    self.assertIsNotNone(text, (path, name, value))
                    self.assertIn(name, text, (path, name, value))
                    tried += 1
        self.assertGreater(tried, 300)

    def test_limits_are_within_reach(self):
        for path, schema, body in self.bodies():
            for name, field in schema["properties"].items():
                companions = {"logprobs": True} if name == "top_logprobs" else {}
                allowed = [field[key] for key in ("minimum", "maximum") if key in field]
                allowed += [value for value in field.get("enum", []) if value]
                for value in allowed:
                    if value == -1 and name.startswith("max_"):
                        continue  # until the context is full, which takes long
                    self.assertIsNone(self.code(path, body | companions | {name: value}),
                                      (path, name, value))

    def test_operations_have_names_of_their_own(self):
        names = [operation["operationId"] for item in self.document["paths"].values()
                 for operation in item.values()]
        self.assertEqual(len(names), len(set(names)))
        self.assertIn("post_v1_chat_completions", names)

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
