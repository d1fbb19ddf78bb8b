# events.py: reads a JSON list of YAML texts, writes a JSON list of PyYAML's events of each: {"events": [...]} or
# {"refused": reason}. Anchors are numbered in the order of their definition.
import json
import sys

import yaml


def event(it, anchors):
    at = [it.start_mark.line + 1, it.start_mark.column + 1]
    if isinstance(it, yaml.AliasEvent):
        return ["alias", anchors.get(it.anchor, 0), at]
    if isinstance(it, yaml.CollectionEndEvent):
        return ["end"]
    if not isinstance(it, yaml.NodeEvent):
        return None
    if it.anchor is not None:
        anchors[it.anchor] = anchors["count"] = anchors.get("count", 0) + 1
    anchor = anchors[it.anchor] if it.anchor is not None else 0
    if isinstance(it, yaml.ScalarEvent):
        text = it.value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
        return ["scalar", text, it.implicit[0], it.tag, anchor, at]
    return ["list" if isinstance(it, yaml.SequenceStartEvent) else "map", it.tag, anchor, at]


def events(text):
    anchors = {}
    try:
        return {"events": [found for it in yaml.parse(text, yaml.SafeLoader) if (found := event(it, anchors))]}
    except (yaml.YAMLError, RecursionError) as error:
        return {"refused": str(error)}


json.dump([events(text) for text in json.load(sys.stdin)], sys.stdout)
