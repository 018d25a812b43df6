/**
 * Reads the export of a tool file as a tool with all its fields. Absent fields get the documented defaults; an invalid
 * field is an error that names it.
 */
import {
  impliesHostTarget,
  isRecord,
  type Json,
  type ToolFileDescription,
  toolNameOf,
} from "@backplane/contract";

export interface ToolFile {
  description: ToolFileDescription;
  /** If absent, a call fails with the message that the tool has no implementation. */
  execute: ((input: unknown, context: unknown) => unknown) | undefined;
}

const RISKS = ["low", "medium", "high"] as const;
const TARGETS = ["sandbox", "host"] as const;
const DEFAULT_RISK = "medium";
const ANY_OBJECT = { type: "object", properties: {} };

/** Throws an error that describes the author's mistake. */
export function readToolDefinition(file: string, exported: unknown): ToolFile {
  const tool = readDefault(file, exported);
  const name = tool.name === undefined ? toolNameOf(file) : readText(tool, "name");
  if (name === "") throw new TypeError("name must not be empty; leave it out to use the file's name");
  const description: ToolFileDescription = {
    ...createDefaultDescription(file, name),
    description: tool.description === undefined ? "" : readText(tool, "description"),
    input_schema: readSchema(tool.input_schema),
    risk: readChoice(tool, "defaultRiskLevel", RISKS) ?? DEFAULT_RISK,
    category: tool.category === undefined ? null : readText(tool, "category"),
    target: readChoice(tool, "executionTarget", TARGETS) ?? targetOf(name),
  };
  const { execute } = tool;
  if (execute !== undefined && typeof execute !== "function") {
    throw new TypeError(`execute must be a function, not ${kindOf(execute)}`);
  }
  return { description, execute: execute === undefined ? undefined : execute.bind(tool) };
}

/** A description with only the defaults. It also describes a file that cannot be loaded. */
export function createDefaultDescription(file: string, name: string = toolNameOf(file)): ToolFileDescription {
  return {
    file,
    name,
    description: "",
    input_schema: ANY_OBJECT,
    risk: DEFAULT_RISK,
    category: null,
    target: targetOf(name),
    load_error: null,
  };
}

function readDefault(file: string, exported: unknown): Record<string, unknown> {
  let tool = exported;
  // A tool compiled to CommonJS is wrapped in `default` twice; a tool written as CommonJS is the export
  // itself.
  for (let wraps = 0; wraps < 2 && isModule(tool); wraps++) tool = tool.default;
  if (!isRecord(tool)) throw new TypeError(`${file} has no default export that is an object`);
  return tool;
}

function readText(tool: Record<string, unknown>, field: string): string {
  const value = tool[field];
  if (typeof value === "string") return value;
  throw new TypeError(`${field} must be a string, not ${kindOf(value)}`);
}

function readChoice<T extends string>(
  tool: Record<string, unknown>,
  field: string,
  allowed: readonly T[],
): T | undefined {
  const value = tool[field];
  if (value === undefined) return undefined;
  const match = allowed.find((word) => word === value);
  if (match !== undefined) return match;
  throw new TypeError(`${field} must be one of ${allowed.join(", ")}, not ${kindOf(value)}`);
}

/**
 * The schema is copied through JSON, because it may be a library object and only plain values can leave this process.
 */
function readSchema(value: unknown): Json {
  if (value === undefined) return ANY_OBJECT;
  if (!isRecord(value))
    throw new TypeError(`input_schema must be a JSON Schema object, not ${kindOf(value)}`);
  return JSON.parse(JSON.stringify(value)) as Json;
}

function targetOf(name: string): "sandbox" | "host" {
  return impliesHostTarget(name) ? "host" : "sandbox";
}

function isModule(value: unknown): value is { default?: unknown } {
  if (!isRecord(value)) return false;
  return (
    value.__esModule === true ||
    (value as { [Symbol.toStringTag]?: unknown })[Symbol.toStringTag] === "Module"
  );
}

function kindOf(value: unknown): string {
  if (typeof value === "string") return JSON.stringify(value.slice(0, 40));
  if (value === null) return "null";
  return Array.isArray(value) ? "a list" : `a ${typeof value}`;
}
