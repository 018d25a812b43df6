/**
 * Checks the input of a compactor, and of a hook that is called directly. The fields are those that spec/protocol.md
 * promises to the plugin, so a plugin is never started for a request that lacks them. Further fields are passed on.
 */

import { isObject, type Json, type PluginExport } from "@backplane/contract";
import type { SchemaIssue } from "@backplane/ports";

type BoundHook = Extract<PluginExport, { kind: "hook" }>;

interface Field {
  accepts: (value: Json) => boolean;
  /** Describes the valid values in the message. */
  expected: string;
  optional?: true;
}

/** A nested record describes the fields of an object. */
interface Fields {
  readonly [name: string]: Field | { fields: Fields };
}

const TEXT: Field = {
  accepts: (value) => typeof value === "string" && value !== "",
  expected: "a non-empty string",
};
const OPTIONAL_TEXT: Field = { ...TEXT, optional: true };
const OBJECT: Field = { accepts: isObject, expected: "an object" };
const BOOLEAN: Field = { accepts: (value) => typeof value === "boolean", expected: "true or false" };
const COUNT: Field = {
  accepts: (value) => typeof value === "number" && value >= 0,
  expected: "a number of at least 0",
};
const BLOCKS: Field = {
  accepts: (value) => Array.isArray(value) && value.every(isObject),
  expected: "a list of blocks",
};

const EVENT: Fields = {
  type: TEXT,
  occurred_at: {
    accepts: (value) => typeof value === "string" && !Number.isNaN(Date.parse(value)),
    expected: "a date and time such as 2026-01-01T12:00:00Z",
  },
  subject: { fields: { kind: TEXT, id: TEXT } },
  summary: OBJECT,
  session_id: OPTIONAL_TEXT,
  chain_id: OPTIONAL_TEXT,
  run_id: OPTIONAL_TEXT,
  trace_id: OPTIONAL_TEXT,
};

const COMPACTION: Fields = {
  source: {
    fields: {
      chain_id: TEXT,
      projection: {
        fields: {
          // With any other transport a plugin reads the projection from a file, and only the gateway may ask for that.
          transport: { accepts: (value) => value === "inline", expected: "inline" },
          blocks: BLOCKS,
          pinned_items: BLOCKS,
          token_estimate: COUNT,
        },
      },
    },
  },
  target: { fields: { max_input_tokens: COUNT, target_model: OPTIONAL_TEXT } },
  policy: { fields: { retain_system: BOOLEAN, retain_open_tasks: BOOLEAN } },
};

export function findEventIssues({ id, hook }: BoundHook, input: Json): readonly SchemaIssue[] {
  const issues = findIssues(EVENT, input, "");
  const type = isObject(input) ? input.type : undefined;
  const subscribed: readonly string[] = hook.subscribes_to;
  if (typeof type === "string" && type !== "" && !subscribed.includes(type))
    issues.push({ path: "/type", message: `must be an event that ${id} receives: ${subscribed.join(", ")}` });
  return issues;
}

export function findCompactionIssues(input: Json): readonly SchemaIssue[] {
  return findIssues(COMPACTION, input, "");
}

function findIssues(fields: Fields, value: Json, path: string): SchemaIssue[] {
  if (!isObject(value)) return [{ path, message: "must be an object" }];
  return Object.entries(fields).flatMap(([name, field]) => {
    const field_path = `${path}/${name}`;
    const part = value[name];
    if (part === undefined)
      return "optional" in field ? [] : [{ path: field_path, message: describeMissing(field) }];
    if ("fields" in field) return findIssues(field.fields, part, field_path);
    return field.accepts(part) ? [] : [{ path: field_path, message: `must be ${field.expected}` }];
  });
}

function describeMissing(field: Fields[string]): string {
  if (!("fields" in field)) return `is missing; it must be ${field.expected}`;
  return `is missing; it must be an object with ${Object.keys(field.fields).join(", ")}`;
}
