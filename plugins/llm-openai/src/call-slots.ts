/**
 * Assigns each fragment to its tool call. OpenAI gives each call an index and sends its id once. Compatible servers may
 * omit the index or the id, use index 0 for every call, repeat the name, or send a whole call at once.
 */
import type { LlmPart } from "@backplane/sdk/kernel";

export interface CallFragment {
  index?: number | null;
  id?: string | null;
  /** Arguments arrive as text; some servers send the object itself. */
  function?: { name?: string | null; arguments?: unknown } | null;
}

interface Slot {
  position: number;
  index: number | null;
  id: string | null;
  name: string | null;
  args: string;
}

export class CallSlots {
  readonly #slots: Slot[] = [];

  add(fragment: CallFragment): Extract<LlmPart, { type: "tool_call" }> {
    const id = fragment.id || null;
    const name = fragment.function?.name || null;
    const args = toArgumentText(fragment.function?.arguments);
    const slot = this.#find(fragment.index ?? null, id, name, args) ?? this.#addSlot(fragment.index ?? null);
    const [new_id, new_name] = [slot.id === null ? id : null, slot.name === null ? name : null];
    slot.id ??= id;
    slot.name ??= name;
    slot.args += args;
    return {
      type: "tool_call",
      index: slot.position,
      ...(new_id === null ? {} : { id: new_id }),
      ...(new_name === null ? {} : { name: new_name }),
      ...(args === "" ? {} : { args }),
    };
  }

  #find(index: number | null, id: string | null, name: string | null, args: string): Slot | undefined {
    if (id !== null) {
      const known = this.#slots.find((slot) => slot.id === id);
      if (known !== undefined) return known;
    }
    const last = this.#slots.findLast((slot) => index === null || slot.index === index);
    if (last === undefined) return undefined;
    if (id !== null && last.id !== null) return undefined;
    // A second complete call with the same index: the name appears again after complete arguments.
    if (name !== null && last.name !== null && (args.startsWith("{") || last.name !== name)) {
      return last.args === "" && last.name === name ? last : isComplete(last.args) ? undefined : last;
    }
    return last;
  }

  #addSlot(index: number | null): Slot {
    const slot = { position: this.#slots.length, index, id: null, name: null, args: "" };
    this.#slots.push(slot);
    return slot;
  }
}

function toArgumentText(value: unknown): string {
  if (typeof value === "string") return value;
  return value === undefined || value === null ? "" : JSON.stringify(value);
}

function isComplete(args: string): boolean {
  if (args === "") return true;
  try {
    JSON.parse(args);
    return true;
  } catch {
    return false;
  }
}
