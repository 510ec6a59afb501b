#!/usr/bin/env python3
"""Measures the built program against named baselines in the same run and prints the ratios.

    python3 benches/run.py [ROW …]      rows: start memory step pipeline stream cancel end grep glob lsp by_name edit index

Builds the release binary and, once, the baselines below target/tools. CPU is user + system time of the process and of
the children it waited for; medians of interleaved runs. No row asserts a time: it is read by a person.
What the searches find is compared with ripgrep's, and a difference ends the run.
"""

import base64
import hashlib
import json
import os
import random
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
TOOLS = TARGET / "tools"
AGENT = TARGET / "release" / "followspot"
SIMPLE_AGENT = TOOLS / "bin" / "simple_agent"
RIPGREP = TOOLS / "bin" / "rg"
OVERHEAD = TARGET / "release" / "examples" / "overhead"
BARE_SSE = TARGET / "release" / "examples" / "bare_sse"


def build():
    run = lambda *args: subprocess.run(args, cwd=ROOT, check=True)
    run("cargo", "build", "--release", "--quiet")
    run("cargo", "build", "--release", "--quiet", "-p", "provider-llm", "--example", "bare_sse")
    install = ["cargo", "install", "--quiet", "--root", str(TOOLS)]
    run("cargo", "build", "--release", "--quiet", "-p", "pipeline", "--features", "fake", "--example", "overhead")
    if not SIMPLE_AGENT.exists():
        run(*install, "agent-client-protocol", "--version", "=5.2.0", "--example", "simple_agent", "--features", "stdio")
    if not RIPGREP.exists():
        run(*install, "--locked", "ripgrep")


def evict(path):
    """A file just written is mapped in large pieces and counts too high; read it back from the disk once."""
    with open(path, "rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


class Agent:
    """A client of one agent process."""

    def __init__(self, argv, env=None, capabilities=None, fs=None):
        self.home = tempfile.mkdtemp(prefix="followspot-bench-")
        clean = {k: v for k, v in os.environ.items() if not re.search("KEY|TOKEN|SECRET|PASSWORD", k)}
        clean |= {"FOLLOWSPOT_HOME": self.home} | (env or {})
        self.process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=clean)
        self.n = 0
        self.capabilities = capabilities or {}
        self.fs = fs
        self.updates = []

    def send(self, message):
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        self.process.stdin.flush()

    def ask(self, method, params):
        self.n += 1
        self.send({"id": self.n, "method": method, "params": params})
        return self.n

    def read(self):
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit("the agent ended unexpectedly")
        return json.loads(line)

    def wait(self, wanted, on_update=None):
        while True:
            message = self.read()
            if message.get("id") == wanted and "method" not in message:
                if "error" in message:
                    raise SystemExit(f"the agent refused: {message['error']}")
                return message["result"]
            if message.get("method") == "session/update":
                if on_update:
                    on_update(message["params"]["update"])
            elif message.get("method") == "fs/read_text_file":
                self.send({"id": message["id"], "result": {"content": self.fs}})
            elif message.get("method") == "session/request_permission":
                chosen = {"outcome": "selected", "optionId": "allow-once"}
                self.send({"id": message["id"], "result": {"outcome": chosen}})

    def call(self, method, params, on_update=None):
        return self.wait(self.ask(method, params), on_update)

    def initialize(self):
        return self.call("initialize", {"protocolVersion": 1, "clientCapabilities": self.capabilities})

    def session(self, cwd):
        return self.call("session/new", {"cwd": str(cwd), "mcpServers": []})["sessionId"]

    def prompt(self, session, text, on_update=None):
        prompt = [{"type": "text", "text": text}]
        return self.call("session/prompt", {"sessionId": session, "prompt": prompt}, on_update)

    def cpu(self):
        """Seconds of CPU so far, from the scheduler's nanoseconds."""
        total = 0
        for task in Path(f"/proc/{self.process.pid}/task").iterdir():
            try:
                total += int((task / "schedstat").read_text().split()[0])
            except (FileNotFoundError, ProcessLookupError):
                pass
        return total / 1e9

    def pss(self):
        text = Path(f"/proc/{self.process.pid}/smaps_rollup").read_text()
        return int(re.search(r"^Pss:\s+(\d+)", text, re.M)[1]) * 1024

    def end(self):
        """Closes stdin; seconds until the exit, and CPU of the whole life."""
        before = time.monotonic()
        self.process.stdin.close()
        _, _, usage = os.wait4(self.process.pid, 0)
        took = time.monotonic() - before
        self.process.returncode = 0
        self.process.stdout.close()
        shutil.rmtree(self.home, ignore_errors=True)
        return took, usage.ru_utime + usage.ru_stime


class Model:
    """A loopback model that answers each request with the next scripted stream of chunks."""

    def __init__(self, replies):
        replies = iter(replies)
        self.arrived = []

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(handler):
                handler.rfile.read(int(handler.headers["Content-Length"]))
                self.arrived.append(time.monotonic())
                handler.send_response(200)
                handler.send_header("Content-Type", "text/event-stream")
                handler.send_header("Connection", "close")
                handler.end_headers()
                for piece in next(replies):
                    if callable(piece):
                        piece()
                    else:
                        handler.wfile.write(piece)
                        handler.wfile.flush()
                handler.close_connection = True

            def log_message(*_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.env = {
            "OPENAI_BASE_URL": f"http://127.0.0.1:{self.server.server_port}/v1",
            "OPENAI_API_KEY": "none",
            "FOLLOWSPOT_MODEL": "openai/scripted",
            "FOLLOWSPOT_MODEL_TITLES": "off",
        }


def event(delta, finish=None):
    chunk = {"id": "c", "object": "chat.completion.chunk", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}
    return b"data: " + json.dumps(chunk).encode() + b"\n\n"


def says(text):
    return [event({"role": "assistant", "content": text}), event({}, "stop"), b"data: [DONE]\n\n"]


def calls(n, name, arguments):
    call = {"index": 0, "id": f"c{n}", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
    return [event({"role": "assistant", "tool_calls": [call]}), event({}, "tool_calls"), b"data: [DONE]\n\n"]


def row(what, ours, baseline, bar, unit="ms", name="baseline"):
    ratio = f"{ours / baseline:6.2f} ×" if baseline else "        "
    base = f"{baseline:9.2f} {unit} ({name})" if baseline else " " * 12
    print(f"{what:44} {ours:9.2f} {unit}  {ratio}  {base}   bar: {bar}")


def median_ms(values):
    return statistics.median(values) * 1000


def start():
    for binary in (AGENT, SIMPLE_AGENT):
        evict(binary)
    ours, floor = [], []
    for round_ in range(17):
        for argv, into in (([AGENT, "acp"], ours), ([SIMPLE_AGENT], floor)):
            agent = Agent(argv)
            agent.initialize()
            _, cpu = agent.end()
            if round_ > 1:
                into.append(cpu)
    row("process start → initialize, CPU", median_ms(ours), median_ms(floor), "2 ×", name="simple_agent")


def memory():
    evict(AGENT)
    evict(SIMPLE_AGENT)
    for argv in ([AGENT, "acp"], [SIMPLE_AGENT]):
        for _ in range(2):
            agent = Agent(argv)
            agent.initialize()
            agent.end()
    agent, floor = Agent([AGENT, "acp"]), Agent([SIMPLE_AGENT])
    agent.initialize()
    floor.initialize()
    with tempfile.TemporaryDirectory() as folder:
        agent.session(folder)
        time.sleep(0.2)
        one = agent.pss()
        row("PSS, one fresh session", one / 1e6, floor.pss() / 1e6, "+ 8 MB", "MB", "simple_agent")
        for _ in range(100):
            agent.session(folder)
        time.sleep(0.3)
        row("each further idle session", (agent.pss() - one) / 100 / 1024, 0, "64 KiB", "KiB")
    agent.end()
    floor.end()


def step():
    n, rounds = 20, 6
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "file.txt"
        text = ("x" * 63 + "\n") * 32
        path.write_text(text)
        # A new offset each time, so that no reminder about repeated calls is added; a new session each round, since the
        # whole conversation is sent with every request.
        replies = [calls(i, "read", {"file_path": str(path), "offset": i % 31 + 1}) for i in range(n)] + [says("done")]
        model = Model(replies * rounds)
        capabilities = {"fs": {"readTextFile": True, "writeTextFile": True}}
        agent = Agent([AGENT, "acp"], model.env, capabilities, text)
        agent.initialize()
        took = []
        for _ in range(rounds):
            session = agent.session(folder)
            before = agent.cpu()
            agent.prompt(session, "go")
            took.append((agent.cpu() - before) / n)
        row("one tool step through client fs, CPU", median_ms(took), 0, "2 ms")
        agent.end()


def stream():
    chunks = [event({"content": f"word{i} "}) for i in range(1000)]
    body = chunks + [event({}, "stop"), b"data: [DONE]\n\n"]
    model = Model([body] * 12)
    ours = []
    with tempfile.TemporaryDirectory() as folder:
        agent = Agent([AGENT, "acp"], model.env)
        agent.initialize()
        session = agent.session(folder)
        for round_ in range(11):
            before = agent.cpu()
            agent.prompt(session, "go")
            if round_:
                ours.append(agent.cpu() - before)
        agent.end()
        recorded = Path(folder) / "stream"
        recorded.write_bytes(b"".join(body))
        bare = []
        for _ in range(10):
            shown = subprocess.run([BARE_SSE, recorded], check=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            bare.append(float(shown.stderr))
    row("1 000 streamed chunks, CPU", median_ms(ours), median_ms(bare), "3 ×, 15 ms", name="bare SSE parse + JSON write")


def cancel():
    took = []
    for _ in range(9):
        go_on = threading.Event()
        model = Model([[event({"role": "assistant", "content": "thinking"}), lambda: go_on.wait(5)]])
        with tempfile.TemporaryDirectory() as folder:
            agent = Agent([AGENT, "acp"], model.env)
            agent.initialize()
            session = agent.session(folder)
            asked = agent.ask("session/prompt", {"sessionId": session, "prompt": [{"type": "text", "text": "go"}]})
            while agent.read().get("params", {}).get("update", {}).get("sessionUpdate") != "agent_message_chunk":
                pass
            before = time.monotonic()
            agent.send({"method": "session/cancel", "params": {"sessionId": session}})
            assert agent.wait(asked)["stopReason"] == "cancelled"
            took.append(time.monotonic() - before)
            go_on.set()
            agent.end()
    row("cancel → answer, wall", median_ms(took), 0, "3 ms")


def end():
    took = []
    for _ in range(9):
        with tempfile.TemporaryDirectory() as folder:
            agent = Agent([AGENT, "acp"])
            agent.initialize()
            agent.session(folder)
            took.append(agent.end()[0])
    row("end of input → exit, wall", median_ms(took), 0, "20 ms")


def tree():
    """50 000 files in 500 folders of a repository, with rules, hidden and binary files, odd names, links in a circle."""
    # Not below this repository: its ignore file would hide the tree from both searchers.
    folder = Path(tempfile.gettempdir()) / "followspot-bench-tree-2"
    if (folder / "done").exists():
        return folder
    shutil.rmtree(folder, ignore_errors=True)
    chance = random.Random(1)
    words = [f"{a}{b}" for a in ("read", "write", "parse", "load", "store") for b in ("_file", "_line", "_all", "Item")]
    for d in range(500):
        sub = folder / f"group{d % 20}" / f"pkg{d}"
        sub.mkdir(parents=True)
        for f in range(100):
            lines = (f"fn {chance.choice(words)}_{d}_{i}() {{ {chance.choice(words)}({i}); }}" for i in range(chance.randint(5, 40)))
            (sub / f"file{f}.{chance.choice(['rs', 'py', 'ts', 'md'])}").write_text("\n".join(lines) + "\n")
    found = "fn write_all_1_1()"
    (folder / ".git").mkdir()
    (folder / ".git" / "HEAD").write_text(found)
    (folder / ".gitignore").write_text("/group1/pkg21/\n*.md\n!file1.md\n")
    (folder / "group2" / ".gitignore").write_text("file1*.rs\n!file11.rs\n")
    (folder / "group3" / ".ignore").write_text("pkg3/\n")
    (folder / "group4" / ".hidden.rs").write_text(found)
    (folder / "group4" / "binary.rs").write_bytes(found.encode() + b"\n\0\n" + found.encode())
    (folder / "group4" / "up").symlink_to("..")
    (folder / "group4" / "loop").symlink_to("loop")
    with open(os.fsencode(folder / "group4") + b"/na\xefve.rs", "w") as file:
        file.write(found)
    (folder / "done").write_text("")
    return folder


def ripgrep(folder, *arguments):
    environment = os.environ | {"RIPGREP_CONFIG_PATH": ""}
    return subprocess.run([RIPGREP, *arguments], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment).stdout


def compare(name, agent, session, arguments, theirs):
    """Ends the run unless the whole list, which a long result saves, is ripgrep's."""
    agent.prompt(session, "/tool " + name + " " + json.dumps(arguments))
    saved = max(Path(agent.home).rglob(f"*{name}-results.txt"), key=lambda path: path.stat().st_mtime)
    ours = set()
    path = None
    for line in saved.read_text().splitlines()[2 if name == "grep" else 0:]:
        number = re.match(r"Line (\d+): ", line)
        if name == "glob":
            ours.add(line)
        elif number:
            ours.add((path, int(number[1])))
        elif line:
            path = line
    if ours != theirs:
        only_ours, only_theirs = list(ours - theirs), list(theirs - ours)
        raise SystemExit(f"{name} differs from rg: only ours {len(only_ours)} {only_ours[:3]}; only rg's {len(only_theirs)} {only_theirs[:3]}")
    print(f"{name}: the same {len(ours)} results as rg")


def same_matches(folder, agent, session):
    found = set()
    for line in ripgrep(folder, "--json", "--regexp", "fn write_all", ".").splitlines():
        record = json.loads(line)
        if record["type"] == "match":
            path = record["data"]["path"]
            name = path["text"] if "text" in path else base64.b64decode(path["bytes"]).decode(errors="replace")
            found.add((name.removeprefix("./"), record["data"]["line_number"]))
    compare("grep", agent, session, {"pattern": "fn write_all"}, found)


def same_files(folder, agent, session):
    hidden = [f"--glob=!**/.git{below}" for below in ("", "/**")]
    listed = ripgrep(folder, "--files", "--null", "--no-ignore", "--hidden", "--glob=*", *hidden)
    names = {name.decode(errors="replace").removeprefix("./") for name in listed.split(b"\0") if name}
    compare("glob", agent, session, {"pattern": "*"}, names)


def search(name, arguments, theirs_arguments, bar, check):
    folder = tree()
    ours, theirs = [], []
    agent = Agent([AGENT, "acp"])
    agent.initialize()
    session = agent.session(folder)
    check(folder, agent, session)
    for round_ in range(8):
        times = {}

        def seen(update):
            status = update.get("status")
            if status:
                times[status] = time.monotonic()

        # A different pattern each round, so that no reminder about repeated calls is added; the same work.
        line = "/tool " + name + " " + json.dumps({k: v.replace("ROUND", str(round_)).replace("MARKS", "?" * round_) for k, v in arguments.items()})
        agent.prompt(session, line, seen)
        before = time.monotonic()
        subprocess.run(
            [RIPGREP, *[part.replace("ROUND", str(round_)) for part in theirs_arguments]],
            cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=os.environ | {"RIPGREP_CONFIG_PATH": ""},
        )
        if round_:
            theirs.append(time.monotonic() - before)
            ours.append(times["completed"] - times["in_progress"])
    agent.end()
    row(f"{name}, 50 000 files, wall", median_ms(ours), median_ms(theirs), bar, name="rg")


def pipeline():
    through, alone = [], []
    for _ in range(5):
        shown = subprocess.run([OVERHEAD], check=True, capture_output=True, text=True).stdout.split()
        through.append(float(shown[0]))
        alone.append(float(shown[1]))
    row("a call of an empty tool through the pipeline, CPU", statistics.median(through), statistics.median(alone),
        "50 µs", "µs", "its body and the measuring")


def grep():
    search("grep", {"pattern": "fn write_all_ROUND\\d*_7\\("}, ["--json", "--regexp", "fn write_all_ROUND\\d*_7\\(", "."], "1.15 ×", same_matches)


def glob():
    # All files each round; the `?`s make the patterns differ.
    search("glob", {"pattern": "file*MARKS"}, ["--files", "--no-ignore", "--hidden", "--sortr", "modified"], "1 ×", same_files)


class LanguageServer:
    """A raw client of one language server."""

    def __init__(self, argv, folder):
        self.process = subprocess.Popen(argv, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self.n = 0
        root = Path(folder).as_uri()
        self.ask("initialize", {"processId": None, "rootUri": root, "capabilities": {},
                                "workspaceFolders": [{"uri": root, "name": "bench"}]})
        self.send({"method": "initialized", "params": {}})

    def send(self, message):
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        self.process.stdin.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)
        self.process.stdin.flush()

    def ask(self, method, params):
        self.n += 1
        self.send({"id": self.n, "method": method, "params": params})
        while True:
            length = 0
            while (line := self.process.stdout.readline()) != b"\r\n":
                if not line:
                    raise SystemExit("the language server ended unexpectedly")
                if line.lower().startswith(b"content-length:"):
                    length = int(line.split(b":")[1])
            message = json.loads(self.process.stdout.read(length))
            if message.get("id") == self.n and "method" not in message:
                return message["result"]
            if "id" in message:
                self.send({"id": message["id"], "result": None})


def resident_kib(pid):
    status = Path(f"/proc/{pid}/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+)", status)[1])


def lsp():
    """Our tool and the raw request, to a clangd each, on the same file; ours from the call's start to its end."""
    if not shutil.which("clangd"):
        raise SystemExit("the lsp row needs clangd: .ci/install-language-servers installs it")
    rounds = 30
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.cpp"
        uses = "".join(f"int use_{i}() {{ return far_away({i}); }}\n" for i in range(2000))
        path.write_text("int far_away(int x) { return x; }\n" + uses)
        raw = LanguageServer(["clangd"], folder)
        raw.send({"method": "textDocument/didOpen", "params": {"textDocument": {
            "uri": path.as_uri(), "languageId": "cpp", "version": 1, "text": path.read_text()}}})
        agent = Agent([AGENT, "acp"])
        agent.initialize()
        session = agent.session(folder)
        before = resident_kib(agent.process.pid)
        for operation, method in (("goToDefinition", "textDocument/definition"), ("findReferences", "textDocument/references")):
            ours, theirs = [], []
            for round_ in range(rounds):
                times = {}

                def seen(update):
                    if update.get("status"):
                        times[update["status"]] = time.monotonic()

                # A new line each round, so that no reminder about repeated calls is added.
                line = 100 + round_
                column = path.read_text().split("\n")[line].index("far_away") + 1
                arguments = {"operation": operation, "file_path": str(path), "line": line + 1, "character": column + 1}
                agent.prompt(session, "/tool lsp " + json.dumps(arguments), seen)
                params = {"textDocument": {"uri": path.as_uri()}, "position": {"line": line, "character": column}}
                begun = time.monotonic()
                raw.ask(method, params | {"context": {"includeDeclaration": True}})
                if round_ > 2:
                    theirs.append(time.monotonic() - begun)
                    ours.append(times["completed"] - times["in_progress"])
            row(f"lsp {operation}, warm, wall", median_ms(ours), median_ms(theirs), "1.1 ×", name="the raw request")
            grown = (resident_kib(agent.process.pid) - before) / 1024
            print(f"memory of ours with one idle server, after {rounds} x {operation}: + {grown:.1f} MiB")
        raw.process.kill()
        agent.end()


def by_name():
    """The first and a later question to the server in the program, over 5 000 files; the base is reading them."""
    with tempfile.TemporaryDirectory() as folder:
        body = "".join(f"/// Number {i}.\npub fn inner_{i}(x: usize) -> usize {{ x + {i} }}\n" for i in range(100))
        for i in range(5000):
            (Path(folder) / f"f{i}.rs").write_text(body.replace("inner", f"inner_{i}") + f"fn m() {{ inner_{(i + 1) % 5000}_7(1); }}\n")
        begun = time.monotonic()
        for path in Path(folder).iterdir():
            path.read_bytes()
        reading = time.monotonic() - begun
        agent = Agent([AGENT, "acp"], {"PATH": "/nonexistent", "HOME": folder})
        agent.initialize()
        session = agent.session(folder)
        before, took = resident_kib(agent.process.pid), []
        for i in range(6):
            times = {}

            def seen(update):
                if update.get("status"):
                    times[update["status"]] = time.monotonic()

            arguments = {"operation": "goToDefinition", "file_path": f"f{i}.rs", "line": 201, "character": 12}
            agent.prompt(session, "/tool lsp " + json.dumps(arguments), seen)
            took.append(times["completed"] - times["in_progress"])
        row("lsp by name, first question, 5 000 files, wall", took[0] * 1000, reading * 1000, "—", name="reading the files")
        row("lsp by name, later question, wall", median_ms(took[1:]), reading * 1000, "—", name="reading the files")
        print(f"memory of the index: + {(resident_kib(agent.process.pid) - before) / 1024:.1f} MiB")
        agent.end()


def edit():
    ours, bare = [], []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "big.txt"
        path.write_text("".join(f"line {i} of a file of five mebibytes, one line of which is edited\n" for i in range(77_000)))
        replies = []
        for i in range(8):
            replies.append(calls(3 * i, "read", {"file_path": str(path), "offset": 100 + i, "limit": 5}))
            replies.append(calls(3 * i + 1, "edit", {
                "file_path": str(path), "old_string": f"line {40_000 + i} of", "new_string": f"line {40_000 + i} (changed) of"}))
            replies.append(says("done"))
        model = Model(replies)
        agent = Agent([AGENT, "acp"], model.env)
        agent.initialize()
        session = agent.session(folder)
        for round_ in range(8):
            times = {}

            def seen(update):
                if update.get("status") and update.get("sessionUpdate") == "tool_call_update":
                    times.setdefault(update["toolCallId"], {})[update["status"]] = time.monotonic()

            agent.prompt(session, "go", seen)
            last = list(times.values())[-1]
            before = time.monotonic()
            data = path.read_bytes()
            hashlib.sha256(data).digest()
            fresh = path.with_suffix(".new")
            with open(fresh, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.rename(fresh, path)
            if round_:
                bare.append(time.monotonic() - before)
                ours.append(last["completed"] - last["in_progress"])
        agent.end()
    row("edit and its card, 5 MiB file, one line, wall", median_ms(ours), median_ms(bare), "2 ×", name="read + hash + write + fsync")


def index():
    subprocess.run(["cargo", "build", "--release", "--quiet", "-p", "provider-index", "--example", "million"], cwd=ROOT, check=True)
    binary = TARGET / "release" / "examples" / "million"
    shown = subprocess.run([binary], check=True, capture_output=True, text=True).stdout.split()
    taking_in, rare, thousandth, hundredth, size = map(float, shown)
    row("search, 1 000 000 events, a rare phrase, CPU", rare, None, "100 ms")
    row("search, a word in 1 000 of them, CPU", thousandth, None, "100 ms")
    row("search, a word in 10 000 of them, CPU", hundredth, None, "100 ms")
    row("taking them into the index, CPU", taking_in / 1000, None, "—", "s")
    row("size of the index", size, None, "—", "MiB")


ROWS = {f.__name__: f for f in (start, memory, step, pipeline, stream, cancel, end, grep, glob, lsp, by_name, edit, index)}

if __name__ == "__main__":
    wanted = sys.argv[1:] or list(ROWS)
    unknown = [name for name in wanted if name not in ROWS]
    if unknown:
        raise SystemExit(f"there is no row {unknown[0]}; use some of {', '.join(ROWS)}")
    if wanted != ["index"]:
        build()
    for name in wanted:
        ROWS[name]()
