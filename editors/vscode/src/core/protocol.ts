// Messages between the extension host and the panel. The host owns the truth; what the panel sends is checked here.

export interface Entry {
  kind: "user" | "agent" | "thought" | "tool" | "error";
  text: string;
  /** Only of a tool: its call id, kind and status. */
  id?: string;
  tool?: string;
  status?: string;
}

export interface Question {
  id: number;
  title: string;
  detail: string;
  options: { id: string; name: string }[];
}

export interface State {
  entries: Entry[];
  plan: { content: string; status: string }[];
  commands: { name: string; description: string }[];
  questions: Question[];
  busy: boolean;
  pending: { path: string; hunks: number }[];
}

export type FromPanel =
  | { type: "ready" }
  | { type: "send"; text: string }
  | { type: "stop" }
  | { type: "permission"; id: number; option: string }
  | { type: "open"; path: string };

/** The message, if it has the shape of one; the panel is not trusted. */
export function parse(message: unknown): FromPanel | undefined {
  if (typeof message !== "object" || message === null || !("type" in message)) return undefined;
  const it = message as Record<string, unknown>;
  switch (it["type"]) {
    case "ready":
    case "stop":
      return { type: it["type"] };
    case "send":
      return typeof it["text"] === "string" && it["text"].trim() !== "" ? { type: "send", text: it["text"] } : undefined;
    case "permission":
      return typeof it["id"] === "number" && typeof it["option"] === "string"
        ? { type: "permission", id: it["id"], option: it["option"] }
        : undefined;
    case "open":
      return typeof it["path"] === "string" ? { type: "open", path: it["path"] } : undefined;
    default:
      return undefined;
  }
}
