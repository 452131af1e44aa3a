"""The chart, alerts and dashboard in deploy/ fit the service: routes, settings, environment, metrics."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest
import yaml

from bot_orch.service.api.routes import API_ROUTES
from bot_orch.service.build import check
from bot_orch.service.config import parse_config
from bot_orch.service.metrics import CATALOGUE
from bot_orch.service.operations.schema import config_schema

DEPLOY = Path(__file__).parents[2] / "deploy"
CHART = DEPLOY / "helm" / "bot-orch"
HELM = Path(sys.executable).parent / "helm"  # helm-binary, a requirement of development


def helm(command, *options):
    called = subprocess.run([HELM, *command, CHART, *options], capture_output=True, text=True)
    return called.stdout if called.returncode == 0 else called.stderr


def manifests(*options):
    rendered = helm(["template", "orch"], *options)
    return {document["kind"]: document for document in yaml.safe_load_all(rendered)}


MANIFESTS = manifests("--set", "prometheus.enabled=true")
SET = MANIFESTS["StatefulSet"]["spec"]
POD = SET["template"]["spec"]
(CONTAINER,) = POD["containers"]
TEXT = MANIFESTS["ConfigMap"]["data"]["bot-orch.yaml"]
CONFIG = parse_config(TEXT, {})
POSTGRES = ["--set", "config.database=postgresql://bot@db/orch,replicas=3"]


def test_the_chart_is_sound():
    assert "0 chart(s) failed" in helm(["lint"], "--strict")


def test_all_kinds_are_there_and_named():
    assert set(MANIFESTS) == {"ConfigMap", "Service", "StatefulSet", "ServiceMonitor", "PrometheusRule"}
    assert set(manifests()) == {"ConfigMap", "Service", "StatefulSet"}
    for document in MANIFESTS.values():
        assert document["apiVersion"] and document["metadata"]["name"] == "orch"
        assert "namespace" not in document["metadata"]


def test_labels_lead_from_service_to_pod():
    labels = SET["template"]["metadata"]["labels"]
    assert SET["selector"]["matchLabels"].items() <= labels.items()
    assert MANIFESTS["Service"]["spec"]["selector"].items() <= labels.items()
    assert SET["serviceName"] == MANIFESTS["Service"]["metadata"]["name"]
    (port,) = MANIFESTS["Service"]["spec"]["ports"]
    assert port["targetPort"] in {each["name"] for each in CONTAINER["ports"]}


def test_probes_ask_routes_without_a_token():
    free = {spec.path for spec in API_ROUTES if spec.scope is None}
    ports = {each["name"]: each["containerPort"] for each in CONTAINER["ports"]}
    for probe, path in (
        ("startupProbe", "/health/live"),
        ("livenessProbe", "/health/live"),
        ("readinessProbe", "/health/ready"),
    ):
        asked = CONTAINER[probe]["httpGet"]
        assert asked["path"] == path and path in free
        assert ports[asked["port"]] == CONFIG.listen.port


def test_the_configuration_in_the_map_is_valid_and_writable():
    check(CONFIG)
    jsonschema.Draft202012Validator(config_schema()).validate(yaml.safe_load(TEXT))
    mounts = {each["mountPath"]: each for each in CONTAINER["volumeMounts"]}
    assert str(Path(CONFIG.database).parent) in mounts and CONTAINER["args"][1] == "/etc/bot-orch/bot-orch.yaml"
    assert mounts["/etc/bot-orch"]["readOnly"] is True
    volumes = {each["name"] for each in POD["volumes"]} | {
        each["metadata"]["name"] for each in SET["volumeClaimTemplates"]
    }
    assert {each["name"] for each in mounts.values()} == volumes


def test_every_token_comes_from_the_secret():
    """Each key of the Secret is a variable; the documentation makes the ones that the default file names."""
    (source,) = CONTAINER["envFrom"]
    page = (DEPLOY.parent / "docs" / "how-to" / "deploying.md").read_text()
    made = re.findall(r"--from-literal=(\w+)=", page)
    assert source["secretRef"]["name"] == re.search(r"create secret generic (\S+)", page)[1]
    assert set(made) == {token.env for token in CONFIG.tokens}
    scraped = MANIFESTS["ServiceMonitor"]["spec"]["endpoints"][0]
    assert scraped["authorization"]["credentials"]["key"] in made and scraped["path"] == "/metrics"


def test_pods_on_postgresql_need_no_volume_and_reach_each_other():
    found = manifests(*POSTGRES)
    spec = found["StatefulSet"]["spec"]
    assert spec["replicas"] == 3 and "volumeClaimTemplates" not in spec
    config = parse_config(found["ConfigMap"]["data"]["bot-orch.yaml"], {"POD_IP": "10.0.0.1"})
    assert config.cluster.address == "10.0.0.1"
    (container,) = spec["template"]["spec"]["containers"]
    assert "POD_IP" in {each["name"] for each in container["env"]}
    assert "log" not in {each["name"] for each in container["volumeMounts"]}


def test_two_writers_of_a_sqlite_log_are_refused():
    assert "a SQLite log has one writer" in helm(["template", "orch"], "--set", "replicas=2")


def test_a_changed_file_restarts_the_pods():
    def digest(*options):
        return manifests(*options)["StatefulSet"]["spec"]["template"]["metadata"]["annotations"]["checksum/config"]

    assert digest() == digest() != digest("--set", "config.router.floor=0.05")


def alert_metrics(text):
    return set(re.findall(r"\bbot_orch_\w+", text)) - SERIES


def test_alerts_use_metrics_that_there_are():
    rules = MANIFESTS["PrometheusRule"]["spec"]["groups"][0]["rules"]
    assert len(rules) >= 6
    for rule in rules:
        assert alert_metrics(rule["expr"]) == set() and rule["labels"]["severity"] in ("page", "ticket")
    assert alert_metrics("bot_orch_wishes_total > 1") == {"bot_orch_wishes_total"}


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed (Debian: prometheus)")
def test_alerts_fire_when_they_should():
    called = subprocess.run(["promtool", "test", "rules", CHART / "alerts_test.yaml"], capture_output=True, text=True)
    assert called.returncode == 0, called.stdout


def test_the_pod_has_no_more_rights_than_it_needs():
    assert POD["securityContext"]["runAsNonRoot"] is True and POD["automountServiceAccountToken"] is False
    assert f"--uid {POD['securityContext']['runAsUser']} " in (DEPLOY.parent / "Dockerfile").read_text()
    assert CONTAINER["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert SET["replicas"] == 1


def test_a_stop_has_the_time_that_it_takes():
    """Before it the pod is taken from the service; then streams have a minute to end."""
    assert CONFIG.limits.grace_s == 60
    command, seconds = CONTAINER["lifecycle"]["preStop"]["exec"]["command"]
    assert command == "sleep" and float(seconds) >= 5
    assert POD["terminationGracePeriodSeconds"] >= float(seconds) + CONFIG.limits.grace_s + 10
    services = yaml.safe_load((DEPLOY.parent / "compose.yaml").read_text())["services"]
    for name in ("one", "two"):
        assert float(services[name]["stop_grace_period"].removesuffix("s")) >= CONFIG.limits.grace_s + 10


DASHBOARD = json.loads((DEPLOY / "grafana" / "bot-orch.json").read_text())
SERIES = {
    name + end
    for name, (kind, _) in CATALOGUE.items()
    for end in (("_bucket", "_sum", "_count") if kind == "histogram" else ("",))
}


def expressions():
    for panel in DASHBOARD["panels"]:
        for target in panel["targets"]:
            yield panel["title"], target["expr"]
    for variable in DASHBOARD["templating"]["list"]:
        if variable["type"] == "query":
            yield variable["name"], variable["query"]["query"]


def unknown(expression):
    return set(re.findall(r"\bbot_orch_\w+", expression)) - SERIES


@pytest.mark.parametrize(("title", "expression"), list(expressions()))
def test_panels_use_metrics_that_there_are(title, expression):
    assert re.search(r"\bbot_orch_\w+", expression) and unknown(expression) == set()
    assert expression.count("(") == expression.count(")") and expression.count("{") == expression.count("}")
    for name in re.findall(r"rate\((bot_orch_\w+)", expression):
        family = re.sub("_(bucket|sum|count)$", "", name)
        assert CATALOGUE[family][0] in ("counter", "histogram"), f"{title}: rate of a gauge"


def test_control_an_unknown_metric_is_found():
    assert unknown("sum(rate(bot_orch_wishes_total[5m]))") == {"bot_orch_wishes_total"}
    assert unknown("bot_orch_request_seconds") == {"bot_orch_request_seconds"}, "a histogram has no series of its own"


def test_the_dashboard_can_be_imported():
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(set(ids)) == len(ids) >= 15 and DASHBOARD["uid"] and DASHBOARD["schemaVersion"] >= 36
    names = {variable["name"] for variable in DASHBOARD["templating"]["list"]}
    used = set(re.findall(r"\$\{?(\w+)", json.dumps(DASHBOARD))) - {"__rate_interval", "__all"}
    assert used == names
    places = [tuple(panel["gridPos"].values()) for panel in DASHBOARD["panels"]]
    cells = [(x + i, y + j) for x, y, w, h in places for i in range(w) for j in range(h)]
    assert len(set(cells)) == len(cells) and max(x for x, _ in cells) < 24, "panels overlap"


def test_the_most_important_metrics_are_shown():
    shown = " ".join(expression for _, expression in expressions())
    for name in ("agent_tokens", "agent_cost_usd", "agent_errors", "agent_call_seconds", "agent_first_token_seconds"):
        assert f"bot_orch_{name}" in shown
