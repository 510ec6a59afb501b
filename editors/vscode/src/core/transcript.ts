// From session updates to what the panel shows. The one place that knows the kinds of updates; unknown ones are ignored.
import type { SessionUpdate, ToolCallContent } from "@agentclientprotocol/sdk/unstable";
import type { State } from "./protocol";

export function emptyState(): State {
  return { entries: [], plan: [], commands: [], questions: [], busy: false, pending: [] };
}

const CHUNKS = { user_message_chunk: "user", agent_message_chunk: "agent", agent_thought_chunk: "thought" } as const;

export function apply(state: State, update: SessionUpdate): void {
  switch (update.sessionUpdate) {
    case "user_message_chunk":
    case "agent_message_chunk":
    case "agent_thought_chunk": {
      const kind = CHUNKS[update.sessionUpdate];
      const text = update.content.type === "text" ? update.content.text : `[${update.content.type}]`;
      const last = state.entries.at(-1);
      if (last?.kind === kind) last.text += text;
      else state.entries.push({ kind, text });
      break;
    }
    case "tool_call":
    case "tool_call_update": {
      let entry = state.entries.find((one) => one.kind === "tool" && one.id === update.toolCallId);
      if (entry === undefined) {
        entry = { kind: "tool", id: update.toolCallId, text: "" };
        state.entries.push(entry);
      }
      const body = update.content == null ? entry.text.split("\n").slice(1).join("\n") : content(update.content);
      const title = update.title ?? entry.text.split("\n")[0] ?? "";
      entry.text = body === "" ? title : `${title}\n${body}`;
      if (update.kind != null) entry.tool = update.kind;
      if (update.status != null) entry.status = update.status;
      break;
    }
    case "plan":
      state.plan = update.entries.map(({ content, status }) => ({ content, status }));
      break;
    case "available_commands_update":
      state.commands = update.availableCommands.map(({ name, description }) => ({ name, description }));
      break;
    default:
      break;
  }
}

/** The body of a card as text; a diff as its removed and added lines. */
export function content(parts: readonly ToolCallContent[]): string {
  return parts
    .map((part) => {
      if (part.type === "diff") {
        const old = (part.oldText ?? "").split("\n").map((line) => `- ${line}`);
        return [part.path, ...old, ...part.newText.split("\n").map((line) => `+ ${line}`)].join("\n");
      }
      return part.type === "content" && part.content.type === "text" ? part.content.text : "";
    })
    .filter((text) => text !== "")
    .join("\n");
}
