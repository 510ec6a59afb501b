// The panel's page: shows the state the host sends and reports what the user does. Everything it shows is hostile text,
// so it only ever becomes text nodes, or HTML that went through the sanitizer.
import DOMPurify from "dompurify";
import { marked } from "marked";
import type { Entry, FromPanel, State } from "../src/core/protocol";

declare function acquireVsCodeApi(): { postMessage(message: FromPanel): void; getState(): unknown; setState(s: unknown): void };
const host = acquireVsCodeApi();
const log = document.getElementById("log")!;
const side = document.getElementById("side")!;
const input = document.getElementById("input") as HTMLTextAreaElement;
const stop = document.getElementById("stop") as HTMLButtonElement;
const popup = document.getElementById("commands")!;
let state: State | undefined;

function element(tag: string, className: string, text = ""): HTMLElement {
  const made = document.createElement(tag);
  made.className = className;
  made.textContent = text;
  return made;
}

function markdown(text: string): HTMLElement {
  const made = element("div", "markdown");
  made.append(DOMPurify.sanitize(marked.parse(text, { async: false }), {
    RETURN_DOM_FRAGMENT: true, FORBID_TAGS: ["img", "style", "form", "input"], FORBID_ATTR: ["style"],
  }));
  return made;
}

function card(entry: Entry): HTMLElement {
  if (entry.kind === "thought" || entry.kind === "tool") {
    const [title = "", ...body] = entry.text.split("\n");
    const made = element("details", `entry ${entry.kind} ${entry.status ?? ""}`);
    const label = entry.kind === "thought" ? "Thought" : `${entry.tool ?? "tool"}: ${title} (${entry.status ?? "pending"})`;
    made.append(element("summary", "", label));
    made.append(entry.kind === "thought" ? markdown(entry.text) : element("pre", "", body.join("\n")));
    return made;
  }
  const made = element("article", `entry ${entry.kind}`);
  made.setAttribute("aria-label", entry.kind);
  if (entry.kind === "agent") made.append(markdown(entry.text));
  else made.textContent = entry.text;
  return made;
}

let shown: string[] = [];
function show(next: State): void {
  state = next;
  const atEnd = log.scrollHeight - log.scrollTop - log.clientHeight < 80;
  next.entries.forEach((entry, at) => {
    const key = JSON.stringify(entry);
    if (shown[at] === key) return;
    const old = log.children[at];
    const made = card(entry);
    if (old instanceof HTMLDetailsElement && made instanceof HTMLDetailsElement) made.open = old.open;
    if (old) old.replaceWith(made);
    else log.append(made);
    shown[at] = key;
  });
  while (log.children.length > next.entries.length) log.lastElementChild!.remove();
  shown = shown.slice(0, next.entries.length);
  const focused = (document.activeElement as HTMLElement | null)?.dataset["key"];
  side.replaceChildren();
  for (const step of next.plan) side.append(element("div", "plan", `${step.status === "completed" ? "✓" : "•"} ${step.content}`));
  for (const question of next.questions) {
    const made = element("article", "question");
    made.setAttribute("aria-label", "Permission");
    made.append(element("strong", "", question.title), element("pre", "", question.detail));
    question.options.forEach((option, at) => {
      const button = element("button", "", `${at + 1} ${option.name}`);
      button.dataset["key"] = `${question.id}/${option.id}`;
      button.onclick = () => host.postMessage({ type: "permission", id: question.id, option: option.id });
      made.append(button);
    });
    made.onkeydown = (event) => {
      const option = question.options[Number(event.key) - 1];
      if (option) host.postMessage({ type: "permission", id: question.id, option: option.id });
    };
    side.append(made);
  }
  for (const file of next.pending) {
    const button = element("button", "pending", `${file.path} · ${file.hunks} pending`);
    button.dataset["key"] = file.path;
    button.onclick = () => host.postMessage({ type: "open", path: file.path });
    side.append(button);
  }
  side.querySelectorAll<HTMLElement>("[data-key]").forEach((one) => one.dataset["key"] === focused && one.focus());
  stop.hidden = !next.busy;
  if (atEnd) log.scrollTop = log.scrollHeight;
}

function suggest(): void {
  const typed = /^\/(\S*)$/.exec(input.value)?.[1];
  popup.replaceChildren();
  for (const command of typed === undefined ? [] : (state?.commands ?? []).filter((one) => one.name.startsWith(typed))) {
    const button = element("button", "command", `/${command.name} — ${command.description}`);
    button.onclick = () => {
      input.value = `/${command.name} `;
      input.focus();
      suggest();
    };
    popup.append(button);
  }
}

input.value = String((host.getState() as { draft?: string } | undefined)?.draft ?? "");
input.oninput = () => {
  host.setState({ draft: input.value });
  suggest();
};
input.onkeydown = (event) => {
  // An input method confirms with Enter too.
  if (event.key !== "Enter" || event.shiftKey || event.isComposing || event.keyCode === 229) return;
  event.preventDefault();
  if (input.value.trim() === "") return;
  host.postMessage({ type: "send", text: input.value });
  input.value = "";
  host.setState({ draft: "" });
  suggest();
};
stop.onclick = () => host.postMessage({ type: "stop" });
window.addEventListener("message", (event: MessageEvent<State>) => show(event.data));
host.postMessage({ type: "ready" });
