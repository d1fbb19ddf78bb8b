# The judge of tests/pyyaml.rs: reads a JSON list of YAML texts, writes {"by": versions, "answers": [...]} with what PyYAML
# makes of each: {"value": tagged, "places": positions, "document": text, "plain": text} or {"refused": reason}.
# Exit status 3: PyYAML is not installed.
import json
import sys

try:
    import yaml
except ImportError:
    sys.exit(3)


class Loader(yaml.SafeLoader):
    """The safe loader, with what a Node cannot hold left as the text that was written."""

    def timestamp(self, node):
        self.construct_yaml_timestamp(node)
        return node.value

    def integer(self, node):
        number = self.construct_yaml_int(node)
        return number if -(2**127) < number < 2**127 else node.value


Loader.add_constructor("tag:yaml.org,2002:timestamp", Loader.timestamp)
Loader.add_constructor("tag:yaml.org,2002:int", Loader.integer)


class Dumper(yaml.SafeDumper):
    def ignore_aliases(self, data):
        return True


def simple(value):
    """Without what a Node does not have: tuples, and halves of letters."""
    if isinstance(value, str):
        return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    if isinstance(value, set):
        return {simple(item) for item in value}
    if isinstance(value, dict):
        return {simple(key): simple(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [simple(item) for item in value]
    return value


def tagged(value):
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, int):
        return {"int": str(value)}
    if isinstance(value, float):
        return {"float": repr(value)}
    if isinstance(value, bytes):
        return {"bytes": value.hex()}
    if isinstance(value, list):
        return [tagged(item) for item in value]
    if isinstance(value, set):
        return {"set": sorted((tagged(item) for item in value), key=json.dumps)}
    return {"map": [[tagged(key), tagged(item)] for key, item in value.items()]}


def places(node, seen):
    """The positions of all nodes but null, in order; None where an alias is one of them.

    An empty value within [] and {} is behind its colon here and before the next token in libyaml.
    """
    if node is None:
        return []
    if id(node) in seen:
        return None
    seen.add(id(node))
    below = node.value if isinstance(node, yaml.CollectionNode) else []
    is_null = node.tag == "tag:yaml.org,2002:null"
    out = [] if is_null else [[node.start_mark.line + 1, node.start_mark.column + 1]]
    for item in below:
        for one in item if isinstance(item, tuple) else (item,):
            found = places(one, seen)
            if found is None:
                return None
            out += found
    return out


def count(value):
    """The number of values, of which duplicate keys and merge keys make fewer than there are nodes."""
    if isinstance(value, dict):
        return 1 + sum(count(key) + count(item) for key, item in value.items())
    return 1 + sum(count(item) for item in value) if isinstance(value, list) else 1


def judge(text):
    try:
        value = simple(yaml.load(text, Loader))
        nodes = set()
        positions = places(yaml.compose(text, Loader), nodes)
        if nodes and len(nodes) != count(value):
            positions = None
    except Exception as error:
        return {"refused": str(error)}
    style = dict(Dumper=Dumper, indent=4, default_flow_style=False)
    return {
        "value": tagged(value),
        "places": positions,
        "document": yaml.dump(value, explicit_start=True, explicit_end=True, **style),
        "plain": yaml.dump(value, **style),
    }


by = "PyYAML %s on Python %s" % (yaml.__version__, sys.version.split()[0])
json.dump({"by": by, "answers": [judge(text) for text in json.load(sys.stdin)]}, sys.stdout)
