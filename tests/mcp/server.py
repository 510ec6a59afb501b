"""An MCP server that misbehaves on demand, for the scenarios: over stdio, or over HTTP with `--http PORTFILE`.

Faults are chosen by arguments: `slow-start SECONDS`, `dies`, `deaf`, `noisy`, `orphan`. What it was sent and started
with is written to the file in MCP_LOG, one JSON value a line.
"""

import json
import os
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

FAULTS = sys.argv[1:]
PNG = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
has_more = False
lock = threading.Lock()


def log(**entry):
    path = os.environ.get("MCP_LOG")
    if path:
        with open(path, "a") as file:
            file.write(json.dumps(entry) + "\n")


def send(message):
    with lock:
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        sys.stdout.flush()


def tool(name, description, schema=None, **rest):
    return {"name": name, "description": description, "inputSchema": schema or {"type": "object"}, **rest}


def tools():
    odd = {"type": "object", "properties": {"n": {"type": "integer", "minimum": 3}}, "required": ["n"]}
    broken = {"type": "object", "properties": {"n": {"type": "whole"}}}
    reads = {"annotations": {"readOnlyHint": True}}
    listed = [
        tool("echo", "Says it again.", {"type": "object", "properties": {"text": {"type": "string"}}}, **reads),
        tool("odd", "Has a minimum.", odd, **reads),
        tool("broken schema", "Has a schema that is none.", broken, **reads),
        tool("fails", "Fails.", **reads),
        tool("image", "Draws a dot.", **reads),
        tool("huge", "Says much.", **reads),
        tool("slow", "Never ends.", **reads),
        tool("die", "Ends the server.", **reads),
        tool("grow", "Adds a tool.", **reads),
        tool("write", "Changes something."),
    ]
    if has_more:
        listed.append(tool("late", "Came later.", **reads))
    return listed


def text(said, **rest):
    return {"content": [{"type": "text", "text": said}], **rest}


def call(name, arguments):
    global has_more
    if name == "fails":
        return text("there is no such row", isError=True)
    if name == "image":
        return {"content": [{"type": "image", "data": PNG, "mimeType": "image/png"}]}
    if name == "huge":
        return text("0123456789abcdef" * 65536)
    if name == "die":
        os._exit(3)
    if name == "grow":
        has_more = True
        send({"method": "notifications/tools/list_changed"})
        time.sleep(0.3)
    return text(f"{name} {json.dumps(arguments, sort_keys=True)}")


def answer(message):
    method, params = message.get("method"), message.get("params") or {}
    log(method=method, params=params)
    if method == "initialize":
        capabilities = {"tools": {"listChanged": True}}
        info = {"name": "test", "version": "1"}
        return {"protocolVersion": "2025-06-18", "capabilities": capabilities, "serverInfo": info}
    if method == "tools/list":
        return {"tools": tools()}
    if method == "tools/call":
        return call(params["name"], params.get("arguments"))
    return {} if method == "ping" else None


def reply(message):
    result = answer(message)
    if "id" not in message:
        return None
    if message.get("method") == "tools/call" and message["params"]["name"] == "slow":
        return None
    if result is None:
        return {"id": message["id"], "error": {"code": -32601, "message": "no such method"}}
    return {"id": message["id"], "result": result}


class Http(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_GET(self):
        self.send_response(405)
        self.send_header("content-length", "0")
        self.end_headers()

    do_DELETE = do_GET

    def do_POST(self):
        log(headers=dict(self.headers))
        if self.headers.get("authorization") != "Bearer hush-hush":
            self.send_response(401)
            self.send_header("content-length", "0")
            self.end_headers()
            return
        message = json.loads(self.rfile.read(int(self.headers["content-length"])))
        said = reply(message)
        if said is None:
            self.send_response(202)
            self.send_header("content-length", "0")
            self.end_headers()
            return
        data = json.dumps({"jsonrpc": "2.0", **said})
        # Calls are answered as a stream, everything else whole.
        is_stream = message.get("method") == "tools/call"
        body = (f"event: message\ndata: {data}\n\n" if is_stream else data).encode()
        self.send_response(200)
        self.send_header("content-type", "text/event-stream" if is_stream else "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def main():
    secrets = {name: value for name, value in os.environ.items() if name.startswith("MCP_TEST")}
    log(pid=os.getpid(), env=secrets, inherited="OPENAI_API_KEY" in os.environ)
    if "--http" in FAULTS:
        server = ThreadingHTTPServer(("127.0.0.1", 0), Http)
        with open(FAULTS[FAULTS.index("--http") + 1], "w") as file:
            file.write(str(server.server_address[1]))
        server.serve_forever()
    if "noisy" in FAULTS:
        # More than any pipe holds: whoever does not read it stops here.
        sys.stderr.write("noise " * 100_000)
        sys.stderr.flush()
    if "orphan" in FAULTS:
        log(orphan=subprocess.Popen(["sleep", "600"], start_new_session=False).pid)
    if "dies" in FAULTS:
        sys.stderr.write(f"cannot open the database with {os.environ.get('MCP_TEST_SECRET')}\n")
        sys.exit(7)
    if "slow-start" in FAULTS:
        time.sleep(float(FAULTS[FAULTS.index("slow-start") + 1]))
    for line in sys.stdin:
        if "deaf" in FAULTS:
            continue
        said = reply(json.loads(line))
        if said is not None:
            send(said)
    if "orphan" in FAULTS:
        # Does not care that its input was closed.
        time.sleep(600)


main()
