# documented-examples - print the examples in the documentation of old cloud-init's modules, which are Python values there, as JSON:
# a list of module and text. Reads the modules' texts by name as JSON. The texts are parsed, not executed.
import ast
import json
import sys
import textwrap


def text_of(node, constants):
    """Returns the value of an expression of text."""
    match node:
        case ast.Constant(value=str(value)):
            return value
        case ast.Name(id=name):
            return text_of(constants[name], constants)
        case ast.JoinedStr(values=parts):
            return "".join(text_of(part, constants) for part in parts)
        case ast.FormattedValue(value=value):
            return text_of(value, constants)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return text_of(left, constants) + text_of(right, constants)
        case ast.BinOp(left=left, op=ast.Mod(), right=right):
            return text_of(left, constants) % text_of(right, constants)
        case ast.Call(func=ast.Name(id="dedent"), args=[argument]):
            return textwrap.dedent(text_of(argument, constants))
    raise ValueError("no text: " + ast.dump(node))


examples = []
for module, source in sorted(json.load(sys.stdin).items()):
    tree = ast.parse(source)
    assigned = [node for node in tree.body if isinstance(node, ast.Assign)]
    constants = {node.targets[0].id: node.value for node in assigned if isinstance(node.targets[0], ast.Name)}
    for node in ast.walk(tree):
        pairs = zip(node.keys, node.values) if isinstance(node, ast.Dict) else ()
        for key, value in pairs:
            if isinstance(key, ast.Constant) and key.value == "examples":
                examples += [(module, text_of(entry, constants)) for entry in value.elts]
json.dump(examples, sys.stdout)
