import type { Json, JsonObject } from "@backplane/contract";
import { expect, expectTypeOf, test } from "vitest";
import { type FromSchema, hook, type ToolExport, tool } from "../src/index.ts";

/**
 * The compiler checks the types (`npm run check:types`). At run time only the type of the schema itself is checked.
 */
function typeOf<const S extends object>(schema: S) {
  expect(schema).toBeTypeOf("object");
  return expectTypeOf<FromSchema<S>>();
}

test("infers scalars, const, enum and lists of types", () => {
  typeOf({ type: "string", minLength: 1 }).toEqualTypeOf<string>();
  typeOf({ type: "integer" }).toEqualTypeOf<number>();
  typeOf({ type: "number" }).toEqualTypeOf<number>();
  typeOf({ type: "boolean" }).toEqualTypeOf<boolean>();
  typeOf({ type: "null" }).toEqualTypeOf<null>();
  typeOf({ const: "start" }).toEqualTypeOf<"start">();
  typeOf({ enum: ["low", "high", 3] }).toEqualTypeOf<"low" | "high" | 3>();
  typeOf({ type: ["string", "null"] }).toEqualTypeOf<string | null>();
  typeOf({ anyOf: [{ type: "string" }, { type: "array", items: { type: "number" } }] }).toEqualTypeOf<
    string | number[]
  >();
  typeOf({}).toEqualTypeOf<Json>();
});

test("infers objects with required, optional, nested and additional properties", () => {
  typeOf({
    type: "object",
    properties: {
      query: { type: "string" },
      limit: { type: "integer" },
      tags: { type: "array", items: { enum: ["a", "b"] } },
      where: { type: "object", properties: { project: { type: "string" } }, required: ["project"] },
    },
    required: ["query", "where"],
  }).toEqualTypeOf<{
    query: string;
    where: { project: string };
    limit?: number;
    tags?: ("a" | "b")[];
  }>();
  typeOf({ type: "object" }).toEqualTypeOf<JsonObject>();
  typeOf({ type: "object", additionalProperties: { type: "number" } }).toEqualTypeOf<
    Record<string, number>
  >();
  typeOf({ type: "array" }).toEqualTypeOf<Json[]>();
});

test("types the functions of a tool from its schemas", () => {
  const definition = tool({
    id: "search",
    input: { type: "object", properties: { query: { type: "string" } }, required: ["query"] },
    output: { type: "object", properties: { hits: { type: "integer" } }, required: ["hits"] },
    config: { type: "object", properties: { limit: { type: "integer" } } },
    run(input, call) {
      expectTypeOf(input).toEqualTypeOf<{ query: string }>();
      expectTypeOf(call.config).toEqualTypeOf<{ limit?: number }>();
      return { hits: input.query.length };
    },
  });
  expectTypeOf(definition).toEqualTypeOf<ToolExport>();
  expect(definition).toMatchObject({ kind: "tool", id: "search", output: { required: ["hits"] } });
  const input = { type: "object" } as const;
  const output = { type: "object", properties: { hits: { type: "integer" } }, required: ["hits"] } as const;
  // @ts-expect-error the output schema requires a number
  tool({ id: "wrong", input, output, run: () => ({ hits: "three" }) });
});

test("types the functions of a tool from explicit type arguments", () => {
  const definition = tool<{ path: string }, { size: number }, { root: string }>({
    id: "size",
    run(input, call) {
      expectTypeOf(input).toEqualTypeOf<{ path: string }>();
      expectTypeOf(call.config).toEqualTypeOf<{ root: string }>();
      return { size: 1 };
    },
  });
  expect(definition).toMatchObject({ kind: "tool", id: "size" });
  tool<{ title: string }>({
    id: "named like a keyword",
    run(input) {
      expectTypeOf(input).toEqualTypeOf<{ title: string }>();
      return input.title;
    },
  });
  tool({
    id: "plain",
    run(input, call) {
      expectTypeOf(input).toEqualTypeOf<Json>();
      expectTypeOf(call.config).toEqualTypeOf<JsonObject>();
      return "text";
    },
  });
});

test("limits the event type of a hook to its subscriptions", () => {
  const definition = hook({
    id: "watch",
    on: ["run.completed", "run.failed"],
    handle(event) {
      expectTypeOf(event.type).toEqualTypeOf<"run.completed" | "run.failed">();
    },
  });
  expect(definition).toMatchObject({ kind: "hook", on: ["run.completed", "run.failed"] });
  // @ts-expect-error the event type does not exist
  hook({ id: "typo", on: ["run.complete"], handle() {} });
});
