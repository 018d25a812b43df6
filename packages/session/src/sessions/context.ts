/**
 * Builds a model's context from a tape (loop.history): the summary of the last anchor, if any, as a system message,
 * then messages, tool calls and their results. Entries before the last anchor are left out (tape.compaction). The
 * builder takes one entry at a time, so that a long session is not read again for each turn.
 */
import {
  attachmentToBlock,
  type ChatMessage,
  type ContentBlock,
  canonicalJson,
  contentChars,
  contentText,
  type Entry,
  failureNote,
  isContent,
  isObject,
  type Json,
  type JsonObject,
  type ToolCallRequest,
  type ToolFailure,
} from "@backplane/contract";
import { share } from "../snapshot/snapshot.ts";

type ToolMessage = Extract<ChatMessage, { role: "tool" }>;

/** The calls of one model response. Each result follows its call, but may precede other calls of the response. */
interface CallGroup {
  step: Json | undefined;
  content: Json;
  calls: ToolCallRequest[];
  results: Map<string, ToolMessage>;
}

const NO_OUTCOME = "no outcome of this call was recorded";

export class ContextBuilder {
  #messages: ChatMessage[] = [];
  #group: CallGroup | null = null;
  /** The messages of the current group, cached until the group changes. */
  #rendered_group: ChatMessage[] | null = null;
  /** User messages that arrived while calls ran: providers require results directly after their calls. */
  #deferred: ChatMessage[] = [];
  #answer: { text: Json; ids: readonly Json[] } | null = null;
  #chars = 0;
  readonly #share: typeof share;

  /** Pass `count_only` if only `tokens` is read, because copying the messages is most of the work. */
  constructor({ count_only = false } = {}) {
    this.#share = count_only ? (message) => message : share;
  }

  /** An estimate of four characters per token, for providers that do not report a count. */
  get tokens(): number {
    return Math.ceil(this.#chars / 4);
  }

  add(entry: Entry): void {
    const { payload } = entry;
    switch (entry.kind) {
      case "anchor":
        this.#restart(summaryOf(entry));
        break;
      case "message":
        this.#addMessage(payload);
        break;
      case "tool_call":
        this.#addCall(payload, entry.meta.step);
        break;
      case "tool_result":
        this.#addResult(textOf(payload.tool_call_id), modelContentOf(payload), payload.ok !== true);
        break;
      case "event":
        this.#addEvent(payload);
        break;
    }
  }

  get size(): number {
    const open_count = this.#group === null ? 0 : 1 + this.#group.calls.length;
    return this.#messages.length + open_count + this.#deferred.length;
  }

  messages(): ChatMessage[] {
    return [...this.#messages, ...this.#renderOpenGroup(), ...this.#deferred];
  }

  #renderOpenGroup(): ChatMessage[] {
    this.#rendered_group ??=
      this.#group === null ? [] : renderGroup(this.#group).map((message) => this.#share(message));
    return this.#rendered_group;
  }

  #restart(summary: string | null): void {
    this.#messages = [];
    this.#rendered_group = null;
    this.#group = null;
    this.#deferred = [];
    this.#answer = null;
    this.#chars = 0;
    if (summary === null) return;
    this.#messages.push(this.#share({ role: "system", content: summary }));
    this.#countChars(summary);
  }

  #addMessage({ role, content = "", attachments }: JsonObject): void {
    this.#countChars(content);
    if (role === "user") {
      const message: ChatMessage = { role, content };
      if (Array.isArray(attachments)) {
        message.attachments = attachments as JsonObject[];
        this.#chars += contentChars(attachments.filter(isObject).map(attachmentToBlock));
      }
      (this.#group === null ? this.#messages : this.#deferred).push(this.#share(message));
    } else if (role === "assistant" || role === "system") {
      this.#closeGroup();
      this.#messages.push(this.#share({ role, content }));
    }
  }

  #addCall({ id, name, args }: JsonObject, step: Json | undefined): void {
    const call = { id: textOf(id), name: textOf(name), args: (args ?? {}) as JsonObject };
    this.#countChars(args ?? {});
    const group = this.#group;
    // Calls without a step (blocks added by a client) form one group until the first result.
    const joins = group !== null && group.step === step && (step !== undefined || group.results.size === 0);
    if (!joins) {
      this.#closeGroup();
      const text = this.#answer?.ids.includes(call.id) === true ? this.#answer.text : "";
      this.#group = { step, content: text, calls: [], results: new Map() };
    }
    this.#group!.calls.push(call);
    this.#rendered_group = null;
  }

  #addResult(tool_call_id: string, content: string | ContentBlock[], is_error: boolean): void {
    const message: ToolMessage = { role: "tool", tool_call_id, content, ...(is_error && { is_error }) };
    if (this.#group?.calls.some(({ id }) => id === tool_call_id) === true) {
      this.#rendered_group = null;
      this.#group.results.set(tool_call_id, message);
    } else if (!this.#replacePlaceholder(message)) return;
    this.#countChars(content);
  }

  /**
   * The result of an interrupted call may arrive after the turn's last message. The result then replaces the
   * placeholder in the context.
   */
  #replacePlaceholder(message: ToolMessage): boolean {
    const index = this.#messages.findLastIndex(
      (other) =>
        other.role === "tool" && other.tool_call_id === message.tool_call_id && other.content === NO_OUTCOME,
    );
    if (index >= 0) this.#messages[index] = this.#share(message);
    return index >= 0;
  }

  #addEvent({ name, data }: JsonObject): void {
    if (!isObject(data)) return;
    if (name === "tool.error") this.#addResult(textOf(data.id), textOf(data.brief), true);
    else if (name === "llm.call.response") {
      const calls = Array.isArray(data.tool_calls) ? data.tool_calls : [];
      this.#answer = { text: data.text ?? "", ids: calls.filter(isObject).map(({ id }) => id!) };
    }
  }

  #closeGroup(): void {
    this.#messages.push(...this.#renderOpenGroup(), ...this.#deferred);
    this.#group = null;
    this.#rendered_group = null;
    this.#deferred = [];
  }

  #countChars(value: Json): void {
    if (typeof value === "string") this.#chars += value.length;
    else this.#chars += isContent(value) ? contentChars(value) : JSON.stringify(value).length;
  }
}

export function contextOf(entries: readonly Entry[]): ChatMessage[] {
  const builder = new ContextBuilder();
  for (const entry of entries) builder.add(entry);
  return builder.messages();
}

function renderGroup({ content, calls, results }: CallGroup): ChatMessage[] {
  return [
    { role: "assistant", content, tool_calls: calls },
    ...calls.map(
      ({ id }) =>
        results.get(id) ?? { role: "tool" as const, tool_call_id: id, content: NO_OUTCOME, is_error: true },
    ),
  ];
}

/**
 * The form of a `tool_result` entry for the model: the error message unless a text contains it, all blocks, the
 * structured output unless a text repeats it, and the reason for a failure. Text alone becomes one string, as in
 * entries that were written before blocks existed.
 */
function modelContentOf(payload: JsonObject): string | ContentBlock[] {
  const content = resultContentOf(payload);
  const texts = content.map(({ text }) => text);
  const { error, value, failure } = payload;
  // The blocks that the author returned with a failed call may lack its error message.
  if (typeof error === "string" && !texts.some((text) => typeof text === "string" && text.includes(error)))
    content.unshift({ type: "text", text: error });
  if ((isObject(value) || (Array.isArray(value) && !isContent(value))) && !isRepeatedIn(value, texts))
    content.push({ type: "text", text: JSON.stringify(value) });
  const note = isObject(failure) ? failureNote(failure as unknown as ToolFailure) : "";
  if (note !== "") content.push({ type: "text", text: note });
  return content.every(({ type }) => type === "text") ? contentText(content) : content;
}

/** Whether a text is the JSON of the value, or the texts are its fields, as with stdout and stderr. */
function isRepeatedIn(value: Json, texts: readonly (Json | undefined)[]): boolean {
  if (isObject(value) && Object.values(value).every((item) => item === "" || texts.includes(item)))
    return true;
  const json = canonicalJson(value);
  return texts.some((text) => {
    if (typeof text !== "string" || !/^\s*[[{]/.test(text)) return false;
    try {
      return canonicalJson(JSON.parse(text)) === json;
    } catch {
      return false;
    }
  });
}

/**
 * The blocks of a `tool_result` entry, as a new list. An entry without blocks has its display, error or value as text.
 */
export function resultContentOf(payload: JsonObject): ContentBlock[] {
  // Blocks added by a client were stored as error or value before entries had content.
  const content =
    payload.content ?? (payload.envelope === undefined ? (payload.error ?? payload.value) : undefined);
  if (isContent(content)) return [...content];
  const text = resultText(payload);
  return text === "" ? [] : [{ type: "text", text }];
}

/** The text of a result for the model: the display text if there is one, otherwise the error, otherwise the value. */
export function resultText({ envelope, error, value }: JsonObject): string {
  const display = isObject(envelope) ? envelope.display : undefined;
  if (isObject(display)) {
    const shown = display.text ?? display.markdown ?? display.data;
    if (shown !== undefined) return typeof shown === "string" ? shown : JSON.stringify(shown);
  }
  const shown = error ?? value ?? "";
  return typeof shown === "string" ? shown : JSON.stringify(shown);
}

/** Returns the summary of a compaction or a handoff, and null for every other entry. */
export function summaryOf(entry: Entry): string | null {
  const state = entry.kind === "anchor" ? entry.payload.state : undefined;
  if (!isObject(state)) return null;
  return typeof state.summary === "string" ? state.summary : null;
}

function textOf(value: Json | undefined): string {
  return typeof value === "string" ? value : "";
}
