/** Sample values for a JSON Schema, and the bodies of the requests that the suite sends. */
import { isObject, type Json, type JsonObject, type PluginExport } from "@backplane/contract";

const MAX_DEPTH = 8;

/**
 * A small value for the schema: its example, default or first allowed value, otherwise a simple value of its type. The
 * value may not match a schema with patterns or conditions, so the caller validates it.
 */
export function makeSample(schema: Json | null, root: Json | null = schema, depth = 0): Json {
  if (!isObject(schema) || depth > MAX_DEPTH) return {};
  const { examples, enum: values, const: constant } = schema;
  if (Array.isArray(examples) && examples.length > 0) return examples[0]!;
  if (schema.default !== undefined) return schema.default;
  if (constant !== undefined) return constant;
  if (Array.isArray(values) && values.length > 0) return values[0]!;
  if (typeof schema.$ref === "string") return makeSample(resolveRef(root, schema.$ref), root, depth + 1);
  for (const key of ["oneOf", "anyOf"])
    if (Array.isArray(schema[key]) && schema[key].length > 0)
      return makeSample(schema[key][0]!, root, depth + 1);
  if (Array.isArray(schema.allOf)) return makeSample(mergeSubschemas(schema, root), root, depth + 1);
  return makeSampleOfType(schema, root, depth);
}

function makeSampleOfType(schema: JsonObject, root: Json | null, depth: number): Json {
  const type = Array.isArray(schema.type) ? schema.type[0] : schema.type;
  if (type === "string") return makeSampleText(schema);
  if (type === "integer" || type === "number") return makeSampleNumber(schema);
  if (type === "boolean") return true;
  if (type === "null") return null;
  if (type === "array") {
    const count = typeof schema.minItems === "number" ? schema.minItems : 0;
    return Array.from({ length: Math.min(count, 100) }, () =>
      makeSample(schema.items ?? null, root, depth + 1),
    );
  }
  const { properties = {}, required = [] } = schema;
  const names = Array.isArray(required) ? required.filter((name) => typeof name === "string") : [];
  return Object.fromEntries(
    names.map((name) => [
      name,
      makeSample(isObject(properties) ? (properties[name] ?? null) : null, root, depth + 1),
    ]),
  );
}

const FORMATS: Record<string, string> = {
  uri: "https://example.com/",
  "uri-reference": "/",
  email: "ada@example.com",
  date: "2026-01-01",
  time: "12:00:00Z",
  "date-time": "2026-01-01T12:00:00Z",
  uuid: "00000000-0000-4000-8000-000000000000",
  hostname: "example.com",
  ipv4: "192.0.2.1",
};

function makeSampleText({ format, minLength, maxLength, pattern }: JsonObject): string {
  if (typeof format === "string" && FORMATS[format] !== undefined) return FORMATS[format];
  // No value is generated from a pattern, except for the usual pattern of a URL.
  if (typeof pattern === "string" && /https\?|https:/.test(pattern)) return "https://example.com";
  const min_length = typeof minLength === "number" ? minLength : 0;
  const max_length = typeof maxLength === "number" ? maxLength : Number.POSITIVE_INFINITY;
  return "example".padEnd(min_length, "x").slice(0, Math.max(max_length, min_length));
}

function makeSampleNumber({ minimum, exclusiveMinimum, maximum, multipleOf }: JsonObject): number {
  if (typeof minimum === "number") return minimum;
  if (typeof exclusiveMinimum === "number")
    return exclusiveMinimum + (typeof multipleOf === "number" ? multipleOf : 1);
  return typeof maximum === "number" ? Math.min(maximum, 1) : 1;
}

function mergeSubschemas(schema: JsonObject, root: Json | null): JsonObject {
  const { allOf, ...rest } = schema;
  const parts = [rest, ...(allOf as Json[])].map((part) =>
    isObject(part) && typeof part.$ref === "string" ? resolveRef(root, part.$ref) : part,
  );
  const merged: JsonObject = { type: "object", properties: {}, required: [] };
  for (const part of parts) {
    if (!isObject(part)) continue;
    Object.assign(merged.properties as JsonObject, part.properties ?? {});
    (merged.required as Json[]).push(...(Array.isArray(part.required) ? part.required : []));
  }
  return merged;
}

/** Resolves references within the document; plugin schemas contain no others. */
function resolveRef(root: Json | null, ref: string): Json | null {
  let target: Json | undefined = root ?? undefined;
  for (const part of ref.replace(/^#\/?/, "").split("/").filter(Boolean)) {
    const name = decodeURIComponent(part).replaceAll("~1", "/").replaceAll("~0", "~");
    target = isObject(target) ? target[name] : undefined;
  }
  return target ?? null;
}

const textContent = (text: string) => [{ type: "text", text }];

/** A conversation with everything that a compactor must keep: a system message, a pinned block and an open task. */
const CONVERSATION: JsonObject[] = [
  { entry_id: 1, kind: "system", content: textContent("Answer briefly.") },
  { entry_id: 2, kind: "input", content: textContent("My name is Ada.") },
  { entry_id: 3, kind: "response", content: textContent("Hello, Ada.") },
  { entry_id: 4, kind: "input", content: textContent("How many words are in this file?") },
  {
    entry_id: 5,
    kind: "tool_call",
    content: [],
    tool_call_id: "call_1",
    name: "word_count",
    input: { text: "one two" },
  },
  {
    entry_id: 6,
    kind: "tool_result",
    content: textContent("2"),
    tool_call_id: "call_1",
    name: "word_count",
    is_error: false,
  },
  { entry_id: 7, kind: "response", content: textContent("It has two words.") },
  { entry_id: 8, kind: "input", content: textContent("And how many lines?") },
];
const PINNED_IDS = [2];
const SYSTEM_IDS = [1];
const OPEN_TASK_IDS = [8];

/** Returns the entries of the sample conversation that the compactor's seed must contain. */
export function findRequiredEntries(supports_pinned_items: boolean): JsonObject[] {
  const ids = [...SYSTEM_IDS, ...(supports_pinned_items ? PINNED_IDS : []), ...OPEN_TASK_IDS];
  return CONVERSATION.filter(({ entry_id }) => ids.includes(entry_id as number));
}

/** Returns the body of a request without export_id and context. `input` replaces the sample input or fields of it. */
export function buildRequestBody(exported: PluginExport, count: number, input: Json): JsonObject {
  switch (exported.kind) {
    case "tool":
      return { tool_execution_id: `toolx_${count}`, input };
    case "hook":
      return {
        delivery_id: `del_${count}`,
        attempt: 1,
        event: { ...makeSampleEvent(exported.hook.subscribes_to[0]!), ...fieldsOf(input) },
      };
    case "compactor":
      return {
        compaction_id: `cmp_${count}`,
        ...makeSampleCompaction(exported.compactor),
        ...fieldsOf(input),
      };
    case "harness":
      return { ...HARNESS_START, ...fieldsOf(input) };
  }
}

function fieldsOf(input: Json): JsonObject {
  return isObject(input) ? input : {};
}

function makeSampleEvent(type: string): JsonObject {
  const kind = type.split(".")[0]!;
  const summary: Record<string, JsonObject> = {
    run: { session_id: "sess_test", status: type.split(".")[1]!, task: "Count the words.", output: "Two." },
    invocation: { status: "succeeded", export_id: "word_count" },
  };
  return {
    type,
    occurred_at: "2026-01-01T12:00:00.000Z",
    subject: { kind, id: `${kind}_test` },
    summary: summary[kind] ?? { task: "Count the words.", output: "" },
    session_id: "sess_test",
  };
}

function makeSampleCompaction({ supports_pinned_items }: { supports_pinned_items: boolean }): JsonObject {
  return {
    source: {
      chain_id: "ch_test",
      projection: {
        transport: "inline",
        blocks: CONVERSATION,
        pinned_items: supports_pinned_items
          ? CONVERSATION.filter(({ entry_id }) => PINNED_IDS.includes(entry_id as number))
          : [],
        token_estimate: 120,
      },
    },
    target: { max_input_tokens: 4_000 },
    policy: { retain_system: true, retain_open_tasks: true },
  };
}

const HARNESS_START: JsonObject = {
  mode: "start",
  target: { session_id: "sess_test", chain_id: "ch_test", execution_id: "exec_test" },
  trigger: { type: "user_request", input: textContent("Count the words.\nCount the lines.") },
  policy: {
    max_depth: 4,
    max_child_runs: 12,
    max_steps: 300,
    max_compactions: 10,
    allow_compaction: true,
  },
};
