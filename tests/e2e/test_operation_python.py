"""What operators read, by readers that are not ours: /metrics with Prometheus's own parser, and the
dashboard against it."""

import json
import pathlib
import re
import unittest
import urllib.request

from prometheus_client.parser import text_string_to_metric_families

from server_process import ServerProcess

ROOT = pathlib.Path(__file__).resolve().parents[2]
# What dashboards and alerts of others may rely on; `type` as Prometheus's parser names it.
FAMILIES = {
    "ballast_time_to_first_token_seconds": "histogram",
    "ballast_request_duration_seconds": "histogram",
    "ballast_engine_inter_token_seconds": "histogram",
    "ballast_engine_queue_seconds": "histogram",
    "ballast_engine_step_seconds": "histogram",
    "ballast_engine_decode_rows": "histogram",
    "ballast_engine_prefill_rows": "histogram",
    "ballast_request_tokens": "counter",
    "ballast_http_replies": "counter",
    "ballast_grammar_masks": "counter",
    "ballast_grammar_mask_seconds": "counter",
    "ballast_memory_bytes": "gauge",
    "ballast_memory_budget_bytes": "gauge",
    "ballast_requests_running": "gauge",
    "ballast_requests_queued": "gauge",
}


class Operation(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = cls.enterClassContext(ServerProcess())

    def get(self, path):
        with urllib.request.urlopen(self.server.url + path, timeout=60) as reply:
            return reply.read().decode()

    def complete(self, **body):
        request = urllib.request.Request(
            self.server.url + "/v1/completions",
            json.dumps({"prompt": "Once upon a time", "max_tokens": 8} | body).encode(),
            {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=120) as reply:
            return json.loads(reply.read())

    def metrics(self):
        families = list(text_string_to_metric_families(self.get("/metrics")))
        return {family.name: family for family in families}, len(families)

    @staticmethod
    def value(family, name, **labels):
        return sum(sample.value for sample in family.samples
                   if sample.name == name and labels.items() <= sample.labels.items())

    def test_the_parser_of_prometheus_takes_it(self):
        usage = self.complete()["usage"]
        self.complete(guided_regex="[0-9]{4}")
        families, count = self.metrics()
        self.assertEqual(len(families), count, "a family comes twice")
        for name, family in families.items():
            self.assertTrue(name.startswith("ballast_"), name)
            self.assertGreater(len(family.documentation), 5, name)
            self.assertIn(family.type, ("counter", "gauge", "histogram"), name)
        for name, kind in FAMILIES.items():
            if self.server.fake and name.startswith("ballast_engine_"):
                continue
            self.assertEqual(families[name].type, kind, name)
        tokens = families["ballast_request_tokens"]
        for kind, least in (("prompt", usage["prompt_tokens"]),
                            ("generated", usage["completion_tokens"]), ("cached", 0)):
            self.assertGreaterEqual(
                self.value(tokens, "ballast_request_tokens_total", kind=kind), least)
        self.assertGreaterEqual(
            self.value(families["ballast_http_replies"], "ballast_http_replies_total",
                       route="/v1/completions", status="200"), 2)

    def test_histograms_are_whole(self):
        self.complete()
        families, _ = self.metrics()
        for family in families.values():
            if family.type != "histogram":
                continue
            buckets = [(float(sample.labels["le"]), sample.value) for sample in family.samples
                       if sample.name.endswith("_bucket")]
            self.assertEqual(buckets, sorted(buckets), family.name)
            self.assertEqual([value for _, value in buckets],
                             sorted(value for _, value in buckets), family.name)
            self.assertEqual(buckets[-1][0], float("inf"), family.name)
            self.assertEqual(buckets[-1][1], self.value(family, family.name + "_count"),
                             family.name)
        self.assertGreaterEqual(self.value(families["ballast_time_to_first_token_seconds"],
                                           "ballast_time_to_first_token_seconds_count"), 1)

    def test_the_dashboard_shows_only_what_exists(self):
        self.complete()
        if self.server.fake:
            self.skipTest("the fake server has no engine")
        families, _ = self.metrics()
        exported = {sample.name for family in families.values() for sample in family.samples}
        dashboard = json.loads((ROOT / "deploy/grafana/ballast.json").read_text())
        expressions = [target["expr"] for panel in dashboard["panels"]
                       for target in panel["targets"]]
        expressions += [variable["query"] for variable in dashboard["templating"]["list"]]
        shown = set(re.findall(r"\bballast_[a-z0-9_]+", " ".join(expressions)))
        self.assertGreater(len(shown), 15)
        self.assertEqual(shown - exported, set())


if __name__ == "__main__":
    unittest.main()
