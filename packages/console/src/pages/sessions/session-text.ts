import { AGENT_SEPARATOR, BRIDGE_PREFIX, type ProviderView, type Session } from "@backplane/contract";

/** The title that a person or a plugin gave the session, or its id. */
export function sessionTitle({ id, metadata }: Pick<Session, "id" | "metadata">): string {
  const { title } = metadata;
  return typeof title === "string" && title.trim() !== "" ? title : id;
}

/** Sub-agents belong to the session that started them, and accept no messages. */
export function isSubAgent({ id }: Pick<Session, "id">): boolean {
  return id.includes(AGENT_SEPARATOR);
}

/** Why a person cannot write to a session; null if they can. */
export function readOnlyReason({ id }: Pick<Session, "id">): string | null {
  if (isSubAgent({ id }))
    return "A sub-agent accepts no messages. Write to the session that started it instead.";
  if (id.startsWith(BRIDGE_PREFIX)) return "A plugin uses this session, so it accepts no messages.";
  return null;
}

const MAX_TITLE = 60;

/** The title of a session that starts with this message: its first line, truncated between words. */
export function titleFrom(text: string): string {
  const line =
    text
      .split("\n")
      .map((each) => each.replace(/^[#>\s*-]+/, "").trim())
      .find((each) => each !== "") ?? "";
  if (line === "") return "New chat";
  if (line.length <= MAX_TITLE) return line;
  const truncated = line.slice(0, MAX_TITLE);
  const space = truncated.lastIndexOf(" ");
  return `${(space > MAX_TITLE / 2 ? truncated.slice(0, space) : truncated).trimEnd()}…`;
}

/** A readable id that sorts by time. The first message creates the session. */
export function newSessionId(now = new Date()): string {
  const stamp = now.toISOString().slice(0, 19).replace(/[-:]/g, "").replace("T", "-");
  const [random] = crypto.getRandomValues(new Uint32Array(1));
  return `chat-${stamp}-${random!.toString(36).padStart(5, "0").slice(-5)}`;
}

/** The name and model of a provider, marked if a required setting is missing. */
export function providerText({ id, label, plugin, config, config_schema }: ProviderView): string {
  const title = label || id;
  const model = typeof config.model === "string" && config.model !== "" ? `, ${config.model}` : "";
  const name = title.includes(plugin) ? title : `${title} (${plugin})`;
  const required = Array.isArray(config_schema?.required) ? config_schema.required : [];
  const ready = required.every((name) => typeof name === "string" && name in config);
  return `${name}${model}${ready ? "" : ", not configured"}`;
}

/** Whether the title or the id contains all words of a search, in any case. */
export function matchesSession(session: Pick<Session, "id" | "metadata">, q: string): boolean {
  const text = `${sessionTitle(session)} ${session.id}`.toLowerCase();
  return q
    .toLowerCase()
    .split(/\s+/)
    .every((word) => text.includes(word));
}
