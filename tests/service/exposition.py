"""A strict parser of Prometheus' text format, written from its description and not from our renderer."""

import itertools
import math
import re
from collections import defaultdict

_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"')
_TYPES = {"counter", "gauge", "histogram", "summary", "untyped"}


def parse(text):
    """{family: (type, help, [(sample name, labels, value)])}; raises AssertionError for what the format forbids."""
    assert text.endswith("\n"), "the last line must end with a line feed"
    families, helps, current = {}, {}, None
    for line in text.split("\n")[:-1]:
        if line.startswith("# HELP "):
            name, _, said = line[7:].partition(" ")
            assert _NAME.fullmatch(name) and name not in helps and name not in families and said.strip(), line
            helps[name] = said
        elif line.startswith("# TYPE "):
            name, kind = line[7:].split(" ")
            assert name not in families, f"{name} is typed twice, or its lines are not together"
            assert kind in _TYPES, line
            families[name], current = (kind, helps.get(name), []), name
        else:
            assert line and not line.startswith("#"), line
            sample, labels, value = _sample(line)
            assert current is not None and _belongs(sample, current, families[current][0]), f"{line} in {current}"
            families[current][2].append((sample, labels, value))
    for name, (kind, _, samples) in families.items():
        seen = [(sample, tuple(sorted(labels.items()))) for sample, labels, _ in samples]
        assert len(set(seen)) == len(seen), f"{name} has a series twice"
        if kind == "histogram":
            _check_histogram(name, samples)
        if kind == "counter":
            assert all(value >= 0 for *_, value in samples), name
    return families


def _sample(line):
    name = _NAME.match(line)[0]
    rest, labels = line[len(name) :], {}
    if rest.startswith("{"):
        rest = rest[1:]
        while not rest.startswith("}"):
            found = _LABEL.match(rest)
            assert found and found[1] not in labels, line
            labels[found[1]] = re.sub(r"\\(.)", lambda m: "\n" if m[1] == "n" else m[1], found[2])
            rest = rest[found.end() :]
            assert rest[0] in ",}", line
            rest = rest.removeprefix(",")
        rest = rest[1:]
    assert rest.startswith(" "), line
    return name, labels, float(rest[1:])


def _belongs(sample, family, kind):
    ends = ("_bucket", "_sum", "_count") if kind == "histogram" else ("",)
    return sample in {family + end for end in ends}


def _check_histogram(name, samples):
    series = defaultdict(dict)
    for sample, labels, value in samples:
        key = tuple(sorted((k, v) for k, v in labels.items() if k != "le"))
        part = sample.removeprefix(name)
        series[key].setdefault(part, []).append((labels.get("le"), value))
    for parts in series.values():
        buckets = [(float(bound), value) for bound, value in parts["_bucket"]]
        assert buckets == sorted(buckets) and math.isinf(buckets[-1][0]), name
        assert all(a[1] <= b[1] for a, b in itertools.pairwise(buckets)), f"{name} is not cumulative"
        assert parts["_count"][0][1] == buckets[-1][1] and len(parts["_sum"]) == 1, name
