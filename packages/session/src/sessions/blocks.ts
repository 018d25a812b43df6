/** Converts between tape entries and VAI blocks. The store holds entries; a block is the VAI form of one entry. */

import {
  attachmentToBlock,
  type Block,
  type ContentBlock,
  type Entry,
  isContent,
  isObject,
  type Json,
  type JsonObject,
} from "@backplane/contract";
import type { NewEntry } from "@backplane/ports";
import { resultContentOf, summaryOf } from "./context.ts";

type Content = Block["content"];

const BLOCK_KIND_BY_ROLE: Readonly<Record<string, Block["kind"]>> = {
  system: "system",
  user: "input",
  assistant: "response",
};

/** Returns null for an entry without a VAI equivalent. */
export function blockOf(entry: Entry): Block | null {
  const block = plainBlockOf(entry);
  const { from_entries } = entry.meta;
  return block !== null && Array.isArray(from_entries)
    ? { ...block, from_entries: from_entries as number[] }
    : block;
}

function plainBlockOf(entry: Entry): Block | null {
  const { payload } = entry;
  const entry_id = entry.id;
  switch (entry.kind) {
    case "anchor": {
      const summary = summaryOf(entry);
      return summary === null
        ? null
        : { entry_id, kind: "system", name: "summary", content: contentOf(summary) };
    }
    case "message": {
      const kind = BLOCK_KIND_BY_ROLE[textOf(payload.role)];
      if (kind === undefined) return null;
      const content = contentOf(payload.content);
      const attachments = kind === "input" ? attachmentBlocksOf(payload.attachments) : [];
      return { entry_id, kind, content: attachments.length === 0 ? content : [...content, ...attachments] };
    }
    case "tool_call":
      return {
        entry_id,
        kind: "tool_call",
        content: [],
        tool_call_id: textOf(payload.id),
        name: textOf(payload.name),
        input: payload.args ?? {},
      };
    case "tool_result": {
      // A tool of a kernel plugin returns only a display envelope, without a value.
      const value = payload.value ?? displayDataOf(payload.envelope);
      return {
        entry_id,
        kind: "tool_result",
        content: resultContentOf(payload),
        tool_call_id: textOf(payload.tool_call_id),
        ...(isStructured(value) ? { structured_output: value } : {}),
        is_error: payload.ok !== true,
        ...pickDefined(payload, ["status", "failure"]),
      } as Block;
    }
    case "event":
      return blockOfEvent(entry_id, payload);
  }
}

function blockOfEvent(entry_id: number, { name, data }: JsonObject): Block | null {
  if (!isObject(data)) return null;
  if (name === "thinking") return { entry_id, kind: "thinking", content: contentOf(data.content) };
  if (name !== "tool.error") return null;
  // The call was rejected before it ran; the error is its result.
  const content = contentOf(data.brief);
  return { entry_id, kind: "tool_result", content, tool_call_id: textOf(data.id), is_error: true };
}

/** Converts a block from a compactor's seed or from a client into an entry. */
export function entryFromBlock(block: Block, date: string): NewEntry {
  const { kind, content } = block;
  const createEntry = (entry_kind: NewEntry["kind"], payload: JsonObject): NewEntry => ({
    kind: entry_kind,
    payload,
    meta: { source: "block" },
    date,
  });
  switch (kind) {
    case "system":
      return createEntry("message", { role: "system", content: content as Json });
    case "input":
      return createEntry("message", { role: "user", ...splitAttachments(content) });
    case "response":
      return createEntry("message", { role: "assistant", content: content as Json });
    case "thinking":
      return createEntry("event", { name: "thinking", data: { content: content as Json } });
    case "tool_call":
      return createEntry("tool_call", {
        id: block.tool_call_id ?? "",
        name: block.name ?? "",
        args: block.input ?? {},
      });
    case "tool_result": {
      const { structured_output: value, is_error, status, failure } = block;
      return createEntry("tool_result", {
        tool_call_id: block.tool_call_id ?? "",
        ok: is_error !== true,
        // A block without content shows its structured output.
        ...(content.length === 0 && value !== undefined ? {} : { content }),
        ...(value === undefined ? {} : { value }),
        ...(status === undefined ? {} : { status }),
        ...(failure === undefined ? {} : { failure: failure as unknown as JsonObject }),
      });
    }
  }
}

/**
 * The attachments of a user's message as blocks. `attachment` marks them, so that the entry can be restored from its
 * block: `untyped` if the type was added and the sent form can be restored, otherwise true.
 */
function attachmentBlocksOf(attachments: Json | undefined): Content {
  if (!Array.isArray(attachments)) return [];
  return attachments.filter(isObject).map((sent) => {
    const block = attachmentToBlock(sent);
    const is_restorable = block !== sent && isEqual(toUntyped(block), sent);
    return { ...block, attachment: is_restorable ? "untyped" : true };
  });
}

function splitAttachments(blocks: Content): JsonObject {
  const attachments: JsonObject[] = [];
  const content = blocks.filter(({ attachment, ...block }) => {
    if (attachment !== true && attachment !== "untyped") return true;
    attachments.push(attachment === true ? block : toUntyped(block as ContentBlock));
    return false;
  });
  return attachments.length === 0 ? { content } : { content, attachments };
}

/** The inverse of `attachmentToBlock`, for every attachment whose data is plain base64. */
function toUntyped({ type, resource, ...fields }: ContentBlock): JsonObject {
  return type === "resource" && isObject(resource) ? { ...fields, data: resource.blob ?? null } : fields;
}

function isEqual(restored: JsonObject, sent: JsonObject): boolean {
  const names = Object.keys(restored);
  return names.length === Object.keys(sent).length && names.every((name) => restored[name] === sent[name]);
}

/** Text becomes one text block, content blocks are kept unchanged, and any other value becomes its JSON text. */
function contentOf(value: Json | undefined): Content {
  if (value === undefined || value === null || value === "") return [];
  if (typeof value === "string") return [{ type: "text", text: value }];
  if (isContent(value)) return value;
  return [{ type: "text", text: JSON.stringify(value) }];
}

function displayDataOf(envelope: Json | undefined): Json | undefined {
  const display = isObject(envelope) ? envelope.display : undefined;
  return isObject(display) ? display.data : undefined;
}

function textOf(value: Json | undefined): string {
  return typeof value === "string" ? value : "";
}

function pickDefined(from: JsonObject, keys: readonly string[]): JsonObject {
  return Object.fromEntries(keys.flatMap((key) => (from[key] === undefined ? [] : [[key, from[key]]])));
}

function isStructured(value: Json | undefined): boolean {
  return isObject(value) || (Array.isArray(value) && !isContent(value));
}
