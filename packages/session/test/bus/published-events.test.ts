/** Checks every row of the event tables of the published kernel protocol. */
import { readFileSync } from "node:fs";
import { BUS_KINDS, isBusKind } from "@backplane/contract";
import { BUS_PAYLOADS } from "@backplane/contract/schema";
import { expect } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { compilePayloadTest } from "../../src/bus/payload-check.ts";
import { toTapedEntry } from "../../src/sessions/taped-entry.ts";

const readPublished = (name: string) =>
  readFileSync(new URL(`../../../../test/fixtures/published/${name}`, import.meta.url), "utf8")
    .trimEnd()
    .split("\n");

interface Field {
  name: string;
  optional: boolean;
  /** Empty where the table gives no type. */
  types: string[];
}

interface Row {
  kind: string;
  fields: Field[];
}

/** Reads `kind direction { name?: type, … } remark`. */
function parseRow(line: string): Row {
  const kind = line.slice(0, line.indexOf(" "));
  let depth = 0;
  const start = line.indexOf("{");
  let end = start;
  do {
    if (line[end] === "{") depth++;
    if (line[end] === "}") depth--;
    end++;
  } while (depth > 0);
  const fields: Field[] = [];
  for (const part of line.slice(start + 1, end - 1).split(/,(?![^[{]*[\]}])/)) {
    const [name = "", type] = part.split(/:(.*)/).map((word) => word.trim());
    if (name === "" || name === "...") continue;
    const types = type === undefined ? [] : type.split("\\|").map((text) => text.trim());
    fields.push({ name: name.replace("?", ""), optional: name.endsWith("?"), types });
  }
  return { kind, fields };
}

const VALUES: Record<string, unknown> = {
  str: "a",
  int: 3,
  float: 0.5,
  bool: true,
  dict: { a: 1 },
  Any: [1],
  null: null,
  Usage: { input_other: 1, output: 2 },
  MemoryEntry: { text: "a" },
  AgentLoopState: { step: 1 },
  "list[Attachment]": [{ name: "a.png" }],
  "list[ToolCall]": [{ id: "c1", name: "bash", args: {} }],
  "list[Message]": [{ role: "user", content: "hi" }],
  "list[ToolSchema]": [{ name: "bash", description: "", parameters: {} }],
  "list[MemoryEntry]": [{ text: "a" }],
};
/** Fields of the tables that have a name and no type. */
const UNTYPED: Record<string, unknown> = {
  reason: "timeout",
  entry_id: 1,
  payload: { role: "user" },
  replayed: 2,
};

const exampleOfType = (type: string) => {
  const value = type.startsWith('"') ? JSON.parse(type) : VALUES[type];
  if (value === undefined) throw new Error(`no value for the type ${type}`);
  return value;
};
const exampleOf = ({ name, types }: Field) =>
  types.length === 0 ? (UNTYPED[name] ?? "a") : exampleOfType(types[0]!);
const payloadOf = (fields: readonly Field[]) =>
  Object.fromEntries(fields.map((field) => [field.name, exampleOf(field)]));

/** Fields that this host adds: the session whose call waits for an answer. */
const ADDED: Record<string, object> = {
  "approval.request": { target_session_id: "s" },
  "approval.cancelled": { target_session_id: "s" },
};

const PUBLIC = readPublished("kernel-events.txt").map(parseRow);

verifies("bus.closed", "the catalog contains exactly the published public kinds", () => {
  expect(PUBLIC.map(({ kind }) => kind).sort()).toEqual(Object.keys(BUS_KINDS).sort());
});

verifies("bus.closed", "accepts every published payload, with and without its optional fields", () => {
  for (const { kind, fields } of PUBLIC) {
    if (!isBusKind(kind)) expect.fail(kind);
    const isValid = compilePayloadTest(BUS_PAYLOADS[kind]);
    const added = ADDED[kind] ?? {};
    const complete = { ...payloadOf(fields), ...added };
    expect(isValid(complete), `${kind} ${JSON.stringify(complete)}`).toBe(true);
    const minimal = { ...payloadOf(fields.filter(({ optional }) => !optional)), ...added };
    expect(isValid(minimal), `${kind} ${JSON.stringify(minimal)}`).toBe(true);
    for (const { name, types } of fields) {
      for (const type of types) {
        expect(isValid({ ...complete, [name]: exampleOfType(type) }), `${kind}.${name} as ${type}`).toBe(
          true,
        );
      }
    }
  }
});

verifies("bus.closed", "refuses a payload without a required field or with a field of another type", () => {
  for (const { kind, fields } of PUBLIC) {
    if (!isBusKind(kind)) expect.fail(kind);
    const isValid = compilePayloadTest(BUS_PAYLOADS[kind]);
    const complete: Record<string, unknown> = { ...payloadOf(fields), ...ADDED[kind] };
    for (const { name, optional, types } of fields) {
      const { [name]: _field, ...rest } = complete;
      expect(isValid(rest), `${kind} without ${name}`).toBe(optional);
      if (types.includes("Any")) continue;
      // No published type is a list of numbers.
      expect(isValid({ ...complete, [name]: [1] }), `${kind} with a wrong ${name}`).toBe(false);
      if (types.every((type) => type.startsWith('"')) && types.length > 0)
        expect(isValid({ ...complete, [name]: "unpublished" }), `${kind}.${name} is a closed list`).toBe(
          false,
        );
    }
  }
});

/** The rows of the persistence table: the event, the kind of its entry, remarks. */
const TAPED = readPublished("tape-table.txt").map((line) => {
  const [, kind = "", entry = ""] = /^(.+?) (message|tool_call|tool_result|event|\(skipped\)) /.exec(line)!;
  return { kind, entry };
});

verifies(
  "tape.append-only",
  "records every public event as the published persistence table specifies",
  () => {
    const findRule = (kind: string) =>
      TAPED.find((row) => row.kind === kind) ??
      TAPED.find((row) => row.kind.endsWith("*") && kind.startsWith(row.kind.slice(0, -1))) ??
      TAPED.find((row) => row.kind === "any other public kind")!;
    expect(TAPED).toHaveLength(8);
    for (const { kind, fields } of PUBLIC) {
      const event = { id: "evt_1", kind, ts: 1, source: "kernel", payload: payloadOf(fields) };
      const taped = toTapedEntry({ ...event, session_id: "s" });
      expect(taped?.entry.kind ?? "(skipped)", kind).toBe(findRule(kind).entry);
      expect(toTapedEntry({ ...event, session_id: "kernel" })).toBeNull();
    }
  },
);
