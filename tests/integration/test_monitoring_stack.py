"""A real Prometheus scrapes a real worker: every expression of the dashboard and of the alert rules finds something."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import orjson
import pytest
from broker import Broker
from kafka import KafkaProducer
from monitoring.dashboard import content

from stream_tgat.commands.topics import ensure_topics
from stream_tgat.metrics import ALL
from stream_tgat.monitoring.publishing import Publisher
from tests.integration.test_stream_smoke import Stream, free_port
from tests.unit.housekeeping.test_quality import report

FOLDER = Path(__file__).resolve().parents[2] / "deploy" / "monitoring"
RULES, DASHBOARD = FOLDER / "alerts.yml", FOLDER / "dashboard.json"
needs_promtool = pytest.mark.skipif(
    shutil.which("promtool") is None, reason="promtool is not installed (Debian package prometheus)"
)


def rule_expressions() -> list[str]:
    """What each alert compares; `expr: >-` goes on in the deeper lines that follow."""
    found = re.findall(r"expr: (?:>-\n((?: {10,}.*\n)+)|(.*)\n)", RULES.read_text())
    return [" ".join(folded.split()) if folded else single for folded, single in found]


def dashboard_expressions() -> list[str]:
    panels = json.loads(DASHBOARD.read_text())["panels"]
    return [target["expr"] for panel in panels for target in panel.get("targets", ())]


def asked(expression: str) -> str:
    """As it is sent: what Grafana fills in, and whether a condition holds in place of those for which it does."""
    filled = expression.replace("$__rate_interval", "10s").replace('"$job"', '".*"')
    return re.sub(r" (==|!=|<|>) ", r" \1 bool ", filled)


@needs_promtool
def test_rules_and_configuration_pass_promtool() -> None:
    for kind, file in (("rules", RULES), ("config", FOLDER / "prometheus.yml")):
        checked = subprocess.run(["promtool", "check", kind, str(file)], check=False, capture_output=True, text=True)
        assert checked.returncode == 0, checked.stdout + checked.stderr


def test_dashboard_is_current_and_shows_every_metric() -> None:
    assert content() == DASHBOARD.read_text(), "run: python deploy/monitoring/dashboard.py"
    named = re.findall(r"stream_tgat_\w+", " ".join(dashboard_expressions()))
    shown = {re.sub(r"_bucket$", "", name) for name in named}
    assert shown == {metric.name for metric in ALL}


def test_rules_name_metrics_that_there_are() -> None:
    expressions = rule_expressions()
    assert len(expressions) == RULES.read_text().count("- alert:")
    named = {re.sub(r"_bucket$", "", name) for each in expressions for name in re.findall(r"stream_tgat_\w+", each)}
    assert named <= {metric.name for metric in ALL}


class Prometheus:
    """A server that scrapes one port twice a second."""

    def __init__(self, folder: Path, target: int) -> None:
        self.port = free_port()
        configuration = folder / "prometheus.yml"
        configuration.write_text(
            f"global: {{scrape_interval: 500ms, evaluation_interval: 1s}}\nrule_files: ['{RULES}']\nscrape_configs:\n"
            f"  - job_name: stream-tgat\n    static_configs: [{{targets: ['127.0.0.1:{target}']}}]\n"
        )
        self._log = folder / "prometheus.log"
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [
                    "prometheus",
                    f"--config.file={configuration}",
                    f"--storage.tsdb.path={folder / 'tsdb'}",
                    f"--web.listen-address=127.0.0.1:{self.port}",
                ],
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def get(self, path: str, **query: str) -> Any:
        url = f"http://127.0.0.1:{self.port}/api/v1/{path}?{urllib.parse.urlencode(query)}"
        with urllib.request.urlopen(url, timeout=10) as answer:
            return json.load(answer)["data"]

    def finds(self, expression: str) -> bool:
        return bool(self.get("query", query=asked(expression))["result"])

    def is_up(self) -> bool:
        assert self._process.poll() is None, self._log.read_text()
        try:
            return self.finds("up == 1")
        except OSError:
            return False

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait(30)


@contextmanager
def prometheus(folder: Path, target: int) -> Iterator[Prometheus]:
    server = Prometheus(folder, target)
    try:
        yield server
    finally:
        server.stop()


@needs_promtool
def test_every_expression_finds_something_in_a_worker_that_works(
    broker: Broker, topic_prefix: str, tmp_path: Path
) -> None:
    stream = Stream(broker, topic_prefix, tmp_path)
    ensure_topics(stream.topology)
    stream.release()
    topics, port = stream.topology.topics, free_port()
    now = time.time()
    events = [{"user": f"a{n % 3}", "item": "b", "timestamp": now - 100 + n, "amount": n} for n in range(20)]
    worker = stream.start("--web-port", str(port))
    try:
        stream.produce(*map(orjson.dumps, events), b"{")
        stream.records(topics.embeddings, 40)
        # One that comes late, a label that no head learns, and a report on the quality.
        stream.produce(orjson.dumps(events[0] | {"timestamp": now - 99.5}))
        producer = KafkaProducer(bootstrap_servers=broker.bootstrap_servers)
        producer.send(topics.labels, orjson.dumps({"node": "a0", "label": "other", "value": 1, "timestamp": now}))
        producer.close()
        with Publisher(stream.topology) as publisher:
            good = report(0.9, model=0)
            figures = good.heads[0].by_model[7].model_copy(update={"alerts": 3, "alert_precision": 0.5})
            head = good.heads[0].model_copy(update={"by_model": {0: figures}})
            links = tuple(each.model_copy(update={"model": 0}) for each in good.links[:1])
            publisher.publish(good.model_copy(update={"heads": (head,), "links": links}))
        with prometheus(tmp_path, port) as server:
            stream.wait(server.is_up)
            left = dict.fromkeys([*rule_expressions(), *dashboard_expressions()])

            def all_found() -> bool:
                for expression in [each for each in left if server.finds(each)]:
                    del left[expression]
                return not left

            try:
                stream.wait(all_found, timeout_s=45)
            except AssertionError:
                pytest.fail(f"nothing is found by: {', '.join(left)}\n{stream.said()[-2000:]}")
            groups = server.get("rules")["groups"]
            assert {rule["health"] for group in groups for rule in group["rules"]} == {"ok"}
    finally:
        worker.terminate()
        assert worker.wait(30) == 0
