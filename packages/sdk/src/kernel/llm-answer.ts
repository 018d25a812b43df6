/**
 * Collects a stream into text, complete tool calls, usage and a stop reason. The fragments of a call's
 * arguments are parsed here and nowhere else; a call never runs with arguments that the model did not finish.
 */
import { type LlmPart, type TokenUsage, type ToolCallRequest, tokenUsage } from "@backplane/contract";
import { LlmCallError } from "./llm-failure.ts";

type RawUsage = Partial<Omit<TokenUsage, "input" | "total">>;

export interface LlmAnswer {
  text: string;
  tool_calls: ToolCallRequest[];
  usage: TokenUsage;
  embeddings?: number[][];
  stop_reason?: string;
  model?: string;
}

interface CallDraft {
  id?: string;
  name: string;
  args: string;
}

export class AnswerDraft {
  readonly #calls = new Map<number, CallDraft>();
  readonly #text: string[] = [];
  #usage: RawUsage = {};
  #reason: string | undefined;
  #model: string | undefined;

  add(part: LlmPart): void {
    switch (part.type) {
      case "content":
        this.#text.push(part.text);
        break;
      case "tool_call":
        this.#addCall(part);
        break;
      case "usage":
        // A later count of the same kind replaces the earlier one, because vendors send running totals.
        this.#usage = { ...this.#usage, ...part.usage };
        break;
      case "stop":
        this.#reason = part.reason ?? this.#reason;
        this.#model = part.model ?? this.#model;
        break;
      case "thinking":
      case "thinking_seal":
      case "native":
        break;
    }
  }

  /**
   * `earlier_ids` are the call ids of the conversation so far, which are not used again: some servers restart at zero
   * in every answer. `id_prefix` begins the ids of calls that arrived without one. `as_streamed`: the reader received
   * the answer from the stream, so the answer is neither checked nor repeated.
   */
  finish(earlier_ids: ReadonlySet<string>, id_prefix: string, as_streamed = false): LlmAnswer {
    if (as_streamed) return { text: "", tool_calls: [], ...this.#ending() };
    const used = new Set(earlier_ids);
    const tool_calls = [...this.#calls.entries()]
      .toSorted(([a], [b]) => a - b)
      .map(([index, draft]) => ({ id: newId(draft.id, `${id_prefix}_${index}`, used), ...parseCall(draft) }));
    const text = this.#text.join("");
    if (text === "" && tool_calls.length === 0) {
      const reason = this.#reason === undefined ? "" : ` It stopped with "${this.#reason}".`;
      throw new LlmCallError({
        kind: "empty",
        message: `The model returned neither text nor a tool call.${reason}`,
      });
    }
    return { text, tool_calls, ...this.#ending() };
  }

  #ending(): Pick<LlmAnswer, "usage" | "stop_reason" | "model"> {
    return {
      usage: tokenUsage(this.#usage),
      ...(this.#reason === undefined ? {} : { stop_reason: this.#reason }),
      ...(this.#model === undefined ? {} : { model: this.#model }),
    };
  }

  #addCall({ index, id, name, args }: Extract<LlmPart, { type: "tool_call" }>): void {
    let draft = this.#calls.get(index);
    if (draft === undefined) {
      draft = { name: "", args: "" };
      this.#calls.set(index, draft);
    }
    if (id !== undefined && id !== "") draft.id ??= id;
    if (name !== undefined && draft.name === "") draft.name = name;
    if (args !== undefined) draft.args += args;
  }
}

function newId(vendor_id: string | undefined, fallback: string, used: Set<string>): string {
  const preferred = vendor_id ?? fallback;
  let id = preferred;
  for (let n = 2; used.has(id); n++) id = `${preferred}_${n}`;
  used.add(id);
  return id;
}

function parseCall({ name, args }: CallDraft): Pick<ToolCallRequest, "name" | "args"> {
  if (name === "") {
    throw new LlmCallError({ kind: "other", message: "The model called a tool without naming it." });
  }
  if (args.trim() === "") return { name, args: {} };
  let value: unknown;
  try {
    value = JSON.parse(args);
  } catch (cause) {
    throw new BrokenArguments(name, cause);
  }
  if (value === null) return { name, args: {} };
  if (typeof value !== "object" || Array.isArray(value)) throw new BrokenArguments(name);
  return { name, args: value as ToolCallRequest["args"] };
}

/** Retryable although its kind is not, because the model may produce a valid answer the next time. */
class BrokenArguments extends LlmCallError {
  readonly retryable = true;

  constructor(name: string, cause?: unknown) {
    const message = `The model called ${name} with arguments that are not a JSON object.`;
    super({ kind: "other", message }, { cause });
  }
}
