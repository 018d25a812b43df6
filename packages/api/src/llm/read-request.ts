/** Reads the parts of a request that several protocols have in common. */
import {
  BackplaneError,
  type ContentBlock,
  isObject,
  type Json,
  type JsonObject,
  type LlmTool,
  normalizeContent,
  type ToolCallRequest,
} from "@backplane/contract";

export function unsupported(param: string, message: string): BackplaneError {
  return new BackplaneError("request.invalid", message, {
    details: { param, issues: [{ path: `body.${param}`, message }] },
  });
}

/** Arguments that are not an object are wrapped as `input`: a model may write any text as arguments. */
export function toArguments(value: Json | undefined): ToolCallRequest["args"] {
  if (isObject(value)) return value;
  if (typeof value !== "string" || value.trim() === "") return {};
  try {
    const parsed = JSON.parse(value) as Json;
    return isObject(parsed) ? parsed : { input: parsed };
  } catch {
    return { input: value };
  }
}

/** A tool whose input is free text, for providers that support only JSON arguments. */
export function freeTextTool(name: string, description: string): LlmTool {
  const input = { type: "string", description: "The whole input of the tool, as plain text." };
  return { name, description, parameters: { type: "object", properties: { input }, required: ["input"] } };
}

export function textOr(value: Json | undefined, fallback = ""): string {
  return typeof value === "string" ? value : fallback;
}

export function listOf(value: Json | undefined): JsonObject[] {
  return Array.isArray(value) ? value.filter(isObject) : [];
}

/** Omits fields that are undefined or null, because clients send null for a default. */
export function omitNullFields<T extends object>(fields: T): { [K in keyof T]?: NonNullable<T[K]> } {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value != null)) as {
    [K in keyof T]?: NonNullable<T[K]>;
  };
}

/** Reads stop sequences. `param` is the name of the field. */
export function readStops(value: Json | undefined, param: string): string[] | undefined {
  if (value === undefined || value === null) return undefined;
  const list = Array.isArray(value) ? value : [value];
  if (!list.every((stop) => typeof stop === "string"))
    throw unsupported(param, `${param} must contain only strings.`);
  return list;
}

export function readNumber(value: Json | undefined): number | undefined {
  return typeof value === "number" ? value : undefined;
}

export function readBoolean(value: Json | undefined): boolean | undefined {
  return typeof value === "boolean" ? value : undefined;
}

/** An image that a client sent, as a content block. */
export function imageBlock(url: string): JsonObject {
  const inline = /^data:([\w.+/-]+);base64,/.exec(url);
  return inline === null
    ? { type: "image", source: { type: "url", url } }
    : { type: "image", data: url.slice(inline[0].length), mimeType: inline[1]! };
}

const MEDIA_PARTS: ReadonlySet<string> = new Set(["document", "file", "input_file", "input_audio"]);

/** A file or audio part with its data, as a content block. Null for any other part. */
export function mediaBlock(part: JsonObject): JsonObject | null {
  if (!MEDIA_PARTS.has(textOr(part.type))) return null;
  const block = normalizeContent(part as ContentBlock);
  return block === part ? null : block;
}
