/**
 * A conversation, built from the loaded entries of its tape. Approvals and sub-agents are not on the tape; they are
 * inserted by time. A compaction repeats recent entries on the new chain with their original dates; each repeated entry
 * is shown only once.
 */
import {
  type Approval,
  type CompactionLoss,
  type Entry,
  type Invocation,
  isObject,
  type Json,
  type JsonObject,
  type Session,
} from "@backplane/contract";

type ToolStatus = "running" | "ok" | "failed";

export interface ToolItem {
  type: "tool";
  /** The entry that the item comes from. */
  entry: number;
  at: string;
  /** The entry of the result, or that of the call while it runs. */
  last_entry: number;
  /** When the result arrived; null while the call runs. */
  ended_at: string | null;
  id: string;
  name: string;
  args: Json;
  status: ToolStatus;
  /** One line about the result. */
  brief: string;
  content: readonly JsonObject[];
  /** The structured result, if the content does not show it. */
  value: Json | undefined;
  failure_code: string | null;
  /** The last lines of stderr of a failed call. */
  stderr: string;
  /** Set by `attachCalls`, like `invocation`. */
  approval: Approval | null;
  invocation: Pick<Invocation, "id" | "status" | "started_at" | "ended_at"> | null;
}

export interface MarkerItem {
  type: "marker";
  kind: "compaction" | "reset" | "context" | "interrupt";
  entry: number;
  at: string;
  text: string;
  summary: string;
  loss: CompactionLoss | null;
}

export type TranscriptItem =
  | ToolItem
  | MarkerItem
  | { type: "user"; entry: number; at: string; text: string; attachments: readonly JsonObject[] }
  | { type: "assistant"; entry: number; at: string; text: string }
  | { type: "thinking"; entry: number; text: string }
  | { type: "sub-agent"; entry: number; session: Session }
  | { type: "approval"; entry: number; approval: Approval }
  | { type: "error"; entry: number; at: string; code: string; message: string };

export interface Thought {
  text: string;
  /** The entry that the thought follows. */
  after: number;
}

export function buildTranscript(
  entries: readonly Entry[],
  approvals: readonly Approval[] = [],
  thoughts: readonly Thought[] = [],
  sub_agents: readonly Session[] = [],
  /** Whether earlier entries exist that are not loaded. A result whose call is among them is left out. */
  partial = false,
): TranscriptItem[] {
  const items: TranscriptItem[] = [];
  const tools = new Map<string, ToolItem>();
  const event_ids = new Set<Json>();
  let compacted_at = "";
  for (const entry of entries) {
    const { event_id } = entry.meta;
    if (event_id !== undefined && event_ids.has(event_id)) continue;
    if (event_id !== undefined) event_ids.add(event_id);
    if (isCompaction(entry)) compacted_at = entry.date;
    else if (entry.date < compacted_at) continue;
    if (partial && isOrphan(entry, tools)) continue;
    addEntry(items, tools, entry);
  }
  for (const { text, after } of thoughts)
    insertBefore(items, (item) => item.entry > after, { type: "thinking", entry: after, text });
  for (const approval of approvals.toSorted((a, b) => a.requested_at.localeCompare(b.requested_at)))
    insertBefore(items, (item) => "at" in item && item.at > approval.requested_at, {
      type: "approval",
      entry: 0,
      approval,
    });
  for (const session of sub_agents.toSorted((a, b) => a.created_at.localeCompare(b.created_at)))
    insertBefore(items, (item) => "at" in item && item.at > session.created_at, {
      type: "sub-agent",
      entry: 0,
      session,
    });
  return items;
}

function isCompaction({ kind, payload }: Entry): boolean {
  return kind === "anchor" && isObject(payload.state) && payload.state.kind === "compaction";
}

function isOrphan({ kind, payload }: Entry, tools: ReadonlyMap<string, ToolItem>): boolean {
  if (kind === "tool_result") return !tools.has(textOf(payload.tool_call_id));
  if (kind !== "event" || payload.name !== "tool.error") return false;
  return isObject(payload.data) && !tools.has(textOf(payload.data.id));
}

function insertBefore(
  items: TranscriptItem[],
  isNext: (item: TranscriptItem) => boolean,
  added: TranscriptItem,
): void {
  const index = items.findIndex(isNext);
  const at = index === -1 ? items.length : index;
  items.splice(at, 0, { ...added, entry: added.entry || (items[at - 1]?.entry ?? 0) });
}

function addEntry(items: TranscriptItem[], tools: Map<string, ToolItem>, entry: Entry): void {
  const { id, kind, payload, date } = entry;
  const position = { entry: id, at: date };
  switch (kind) {
    case "anchor":
      addAnchor(items, position, payload);
      return;
    case "message": {
      const text = textOf(payload.content);
      const attachments = objects(payload.attachments);
      if (payload.role === "user") items.push({ type: "user", ...position, text, attachments });
      else if (text !== "") items.push({ type: "assistant", ...position, text });
      return;
    }
    case "tool_call":
      findOrAddTool(items, tools, position, textOf(payload.id), textOf(payload.name), payload.args ?? {});
      return;
    case "tool_result": {
      const tool = findOrAddTool(items, tools, position, textOf(payload.tool_call_id));
      Object.assign(tool, resultOf(payload), { ended_at: date, last_entry: id });
      return;
    }
    case "event":
      addEvent(items, tools, position, textOf(payload.name), isObject(payload.data) ? payload.data : {});
  }
}

type EntryPosition = { entry: number; at: string };

function addAnchor(items: TranscriptItem[], position: EntryPosition, { name, state }: JsonObject): void {
  const { kind, summary, tokens_before, tokens_after, loss } = isObject(state) ? state : {};
  const addMarker = (marker_kind: MarkerItem["kind"], text: string) =>
    items.push({
      type: "marker",
      kind: marker_kind,
      ...position,
      text,
      summary: textOf(summary),
      loss: isObject(loss) ? (loss as unknown as CompactionLoss) : null,
    });
  if (kind === "compaction") {
    const figures =
      typeof tokens_before === "number" && typeof tokens_after === "number"
        ? `, from about ${tokens_before} to ${tokens_after} tokens`
        : "";
    addMarker("compaction", `Earlier messages were summarized${figures}`);
  } else if (name === "session/start") {
    if (items.length > 0)
      addMarker("reset", "The session was reset; the model does not see the messages above");
  } else addMarker("context", `The model's context starts here: ${textOf(name)}`);
}

function addEvent(
  items: TranscriptItem[],
  tools: Map<string, ToolItem>,
  position: EntryPosition,
  name: string,
  data: JsonObject,
): void {
  switch (name) {
    case "thinking":
      items.push({ type: "thinking", entry: position.entry, text: textOf(data.content) });
      return;
    case "tool.error": {
      const tool = findOrAddTool(items, tools, position, textOf(data.id));
      const value = data.detail;
      const brief = textOf(data.brief);
      const failure_code = textOf(data.kind);
      Object.assign(tool, { status: "failed", brief, value, failure_code });
      Object.assign(tool, { ended_at: position.at, last_entry: position.entry });
      return;
    }
    case "llm.call.response":
      addTextWithCalls(items, position, textOf(data.text), objects(data.tool_calls));
      return;
    case "user.interrupt":
      items.push({
        type: "marker",
        kind: "interrupt",
        ...position,
        text: "Interrupted",
        summary: "",
        loss: null,
      });
      return;
    case "kernel.error": {
      const code = isObject(data.detail) ? textOf(data.detail.code) : "";
      items.push({ type: "error", ...position, code: code || "internal", message: textOf(data.message) });
    }
  }
}

/** The text that a model sends together with tool calls is only in llm.call.response, which may follow the calls. */
function addTextWithCalls(
  items: TranscriptItem[],
  position: EntryPosition,
  text: string,
  calls: readonly JsonObject[],
): void {
  if (text === "" || calls.length === 0) return;
  const ids = new Set(calls.map(({ id }) => textOf(id)));
  insertBefore(items, (item) => item.type === "tool" && ids.has(item.id), {
    type: "assistant",
    ...position,
    text,
  });
}

/** Returns the item of a call, and adds it if there is none: a result without a call gets an item too. */
function findOrAddTool(
  items: TranscriptItem[],
  tools: Map<string, ToolItem>,
  position: EntryPosition,
  id: string,
  name = "tool",
  args: Json = {},
): ToolItem {
  const known = tools.get(id);
  if (known !== undefined) return known;
  const item: ToolItem = {
    type: "tool",
    ...position,
    last_entry: position.entry,
    id,
    name,
    args,
    status: "running",
    brief: "",
    content: [],
    value: undefined,
    failure_code: null,
    stderr: "",
    ended_at: null,
    approval: null,
    invocation: null,
  };
  tools.set(id, item);
  items.push(item);
  return item;
}

function resultOf(
  payload: JsonObject,
): Pick<ToolItem, "status" | "brief" | "content" | "value" | "failure_code" | "stderr"> {
  const { ok, value, error, envelope, failure } = payload;
  const { brief, display } = isObject(envelope) ? envelope : {};
  const content = objects(payload.content);
  return {
    status: ok === true ? "ok" : "failed",
    brief: textOf(brief) || textOf(error),
    content: content.length > 0 ? content : contentOfDisplay(display, error),
    value: value ?? (isObject(display) ? display.data : undefined),
    failure_code: isObject(failure) ? textOf(failure.code) : null,
    stderr: isObject(failure) ? textOf(failure.stderr) : "",
  };
}

function contentOfDisplay(display: Json | undefined, error: Json | undefined): JsonObject[] {
  const { text, markdown } = isObject(display) ? display : {};
  if (typeof markdown === "string" && markdown !== "") return [{ type: "markdown", text: markdown }];
  if (typeof text === "string" && text !== "") return [{ type: "text", text }];
  return typeof error === "string" ? [{ type: "text", text: error }] : [];
}

function objects(value: Json | undefined): JsonObject[] {
  return Array.isArray(value) ? value.filter(isObject) : [];
}

function textOf(content: Json | undefined): string {
  if (typeof content === "string") return content;
  if (Array.isArray(content))
    return content.map((part) => (isObject(part) ? textOf(part.text) : "")).join("");
  return content === null || content === undefined ? "" : JSON.stringify(content);
}
