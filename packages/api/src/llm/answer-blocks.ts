/**
 * Groups the parts of a translated answer into blocks: text, thinking and tool calls. A block is opened, extended and
 * closed; the next block starts after that. The protocols `responses` and `messages` both have this structure.
 */
import type { LlmEndpointPart } from "@backplane/ports";

export interface AnswerBlock {
  index: number;
  type: "text" | "thinking" | "tool_call";
  /** The text, or the JSON text of a call's arguments. */
  text: string;
  /** Set for thinking only. */
  seal: string | null;
  /** Set for a tool call only. */
  id: string;
  name: string;
}

export type BlockEvent =
  | { type: "open"; block: AnswerBlock }
  | { type: "delta"; block: AnswerBlock; text: string }
  | { type: "close"; block: AnswerBlock };

/** The reason why an answer ended, in terms that every protocol has. */
export type AnswerEnding = "end" | "length" | "tool" | "filter" | "stop_sequence";

type ContentPart = Exclude<LlmEndpointPart, { type: "native" | "end" }>;

export class AnswerBlocks {
  readonly blocks: AnswerBlock[] = [];
  readonly #prefix: string;
  readonly #calls = new Map<number, AnswerBlock>();
  #open: AnswerBlock | null = null;

  /** A tool call that the provider sent without an id gets one that starts with `prefix`. */
  constructor(prefix: string) {
    this.#prefix = prefix;
  }

  *add(part: ContentPart): Generator<BlockEvent> {
    if (part.type === "tool_call") {
      let block = this.#calls.get(part.index);
      if (block === undefined) {
        yield* this.close();
        block = this.#append("tool_call");
        block.id = part.id ?? `${this.#prefix}${block.index}`;
        block.name = part.name ?? "";
        this.#calls.set(part.index, block);
        yield { type: "open", block };
      }
      yield* this.#extend(block, part.args ?? "");
    } else if (part.type === "thinking_seal") {
      const block = this.#open?.type === "thinking" ? this.#open : null;
      if (block === null) yield* this.close();
      const sealed = block ?? this.#append("thinking");
      sealed.seal = part.seal;
      if (block === null) yield { type: "open", block: sealed };
      yield* this.close();
    } else {
      const type = part.type === "content" ? "text" : "thinking";
      if (this.#open?.type !== type) {
        yield* this.close();
        yield { type: "open", block: this.#append(type) };
      }
      yield* this.#extend(this.#open!, part.text);
    }
  }

  /** Closes the block that is open, if any. */
  *close(): Generator<BlockEvent> {
    const block = this.#open;
    this.#open = null;
    if (block !== null) yield { type: "close", block };
  }

  get has_calls(): boolean {
    return this.#calls.size > 0;
  }

  *#extend(block: AnswerBlock, text: string): Generator<BlockEvent> {
    if (text === "") return;
    block.text += text;
    yield { type: "delta", block, text };
  }

  #append(type: AnswerBlock["type"]): AnswerBlock {
    const block = { index: this.blocks.length, type, text: "", seal: null, id: "", name: "" };
    this.blocks.push(block);
    this.#open = block;
    return block;
  }
}

const ENDINGS: Readonly<Record<string, AnswerEnding>> = {
  length: "length",
  max_tokens: "length",
  max_output_tokens: "length",
  model_context_window_exceeded: "length",
  content_filter: "filter",
  refusal: "filter",
  stop_sequence: "stop_sequence",
};

export function toAnswerEnding(stop_reason: string | null, has_calls: boolean): AnswerEnding {
  const ending = ENDINGS[stop_reason ?? ""];
  return ending ?? (has_calls ? "tool" : "end");
}
