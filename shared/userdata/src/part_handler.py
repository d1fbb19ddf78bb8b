# Calls a part handler as Python's cloud-init did: argv is its file and what to do, standard input the rest as
# JSON. Started by cloud-init, for one source of data at a time.
import base64
import importlib.util
import json
import sys
import traceback

path, task = sys.argv[1:3]
spec = importlib.util.spec_from_file_location("part_handler", path)
handler = importlib.util.module_from_spec(spec)
spec.loader.exec_module(handler)
try:
    version = int(getattr(handler, "handler_version", 1))
except (TypeError, ValueError):
    version = 1
if task == "list":
    handler.handle_part
    frequency = getattr(handler, "frequency", None) or "once-per-instance"
    print("\n" + json.dumps({"types": list(handler.list_types()), "frequency": str(frequency)}))
    sys.exit()
work = json.load(sys.stdin)
try:
    with open(work["data"], encoding="utf-8") as file:
        data = json.load(file)
except (OSError, ValueError):
    data = {}
failed = False
for call in work["calls"]:
    payload = call["payload"]
    if payload is not None:
        payload = base64.b64decode(payload)
        if call["text"]:
            payload = payload.decode("utf-8", "surrogateescape")
    arguments = [data, call["type"], call["filename"], payload, work["frequency"], call["headers"]]
    try:
        handler.handle_part(*arguments[: {2: 5, 3: 6}.get(version, 4)])
    except Exception:
        # Its last line may hold what was in the part.
        trace = traceback.extract_tb(sys.exc_info()[2])[-1]
        print("%s at line %s, called with %s" % (sys.exc_info()[0].__name__, trace.lineno, call["type"]), file=sys.stderr)
        failed = True
sys.exit(3 if failed else 0)
