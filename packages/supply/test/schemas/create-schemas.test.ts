import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { afterAll, describe, expect, test } from "vitest";
import { bundlePrograms } from "../../../../test/support/kernel-plugins/bundle-programs.ts";
import { verifies } from "../../../../test/support/verifies.ts";
import { createSchemas } from "../../src/index.ts";

// Each timeout ends a thread. Starting the next one takes twice as long from its sources as from a bundle.
const folder = mkdtempSync(join(tmpdir(), "backplane-schema-worker-"));
await bundlePrograms(folder, {
  "schema-worker": new URL("../../src/schemas/schema-worker.ts", import.meta.url),
});
const bundled = pathToFileURL(join(folder, "schema-worker.js"));
const schemas = createSchemas({ worker: bundled });
afterAll(async () => {
  await schemas.close();
  rmSync(folder, { recursive: true, force: true });
});

let count = 0;
const check = async (schema: unknown, value: unknown) =>
  await (await schemas.compile(`k${count++}`, schema))(value);

async function catchRefusal(schema: unknown): Promise<{ code?: string; message?: string }> {
  return await schemas.compile(`k${count++}`, schema).then(
    () => ({}),
    (error: object) => error,
  );
}

describe("the issues of a value", () => {
  const PERSON = {
    type: "object",
    required: ["name", "age"],
    properties: {
      name: { type: "string", minLength: 2 },
      age: { type: "integer" },
      role: { enum: ["owner", "guest"] },
      tags: { type: "array", items: { type: "string", pattern: "^[a-z]+$" } },
    },
    additionalProperties: false,
  };

  test("are empty for a valid value", async () => {
    expect(await check(PERSON, { name: "Ada", age: 36, role: "owner", tags: ["a"] })).toEqual([]);
  });

  test("are complete, with JSON pointers and descriptions", async () => {
    expect(await check(PERSON, { name: "A", role: "boss", tags: ["ok", "NO"], "x/y": 1 })).toEqual([
      { path: "", message: 'must have the property "age"' },
      { path: "", message: 'must not have the property "x/y"' },
      { path: "/name", message: "must not have fewer than 2 characters" },
      { path: "/role", message: 'must be one of "owner", "guest"' },
      { path: "/tags/1", message: 'must match the pattern "^[a-z]+$"' },
    ]);
  });

  test("never contain a value of the input", async () => {
    const secret = "hunter2-hunter2";
    const issues = await check(
      {
        properties: {
          a: { const: 1 },
          b: { type: "number" },
          c: { maxLength: 3 },
          d: { format: "email" },
          e: { enum: [1] },
          f: { pattern: "^x" },
        },
      },
      { a: secret, b: secret, c: secret, d: secret, e: secret, f: secret },
    );
    expect(issues.length).toBe(6);
    expect(JSON.stringify(issues)).not.toContain(secret);
  });

  test("are limited to twenty", async () => {
    expect(
      (
        await check(
          { items: { type: "string" } },
          Array.from({ length: 100 }, (_, index) => index),
        )
      ).length,
    ).toBe(20);
  });
});

describe("dialects of JSON Schema", () => {
  const tuple = { type: "array", items: [{ type: "string" }], additionalItems: false };
  test("uses draft-07 when $schema specifies it", async () => {
    const draft07 = { $schema: "http://json-schema.org/draft-07/schema#", ...tuple };
    expect(await check(draft07, ["a", 2])).toEqual([
      { path: "", message: "must not have more than 1 items" },
    ]);
    expect(await check(draft07, ["a"])).toEqual([]);
  });
  test("uses 2020-12 by default and when $schema specifies it", async () => {
    const latest = { type: "array", prefixItems: [{ type: "string" }], items: false };
    expect((await check(latest, ["a", 2])).length).toBe(1);
    expect(
      (await check({ $schema: "https://json-schema.org/draft/2020-12/schema", ...latest }, [1])).length,
    ).toBe(1);
    expect((await catchRefusal(tuple)).code).toBe("package.schema");
  });
  test("ignores unknown keywords and formats", async () => {
    expect(await check({ type: "string", "x-order": 3, format: "x-mine", example: 1 }, "a")).toEqual([]);
  });
  test("resolves an $id and references inside the document", async () => {
    const schema = {
      $id: "https://acme.example/s.json",
      properties: {
        a: { $ref: "#/$defs/n" },
        b: { $ref: "https://acme.example/s.json#/$defs/n" },
        c: { $ref: "#named" },
      },
      $defs: { n: { type: "number" }, m: { $anchor: "named", type: "string" } },
    };
    expect(await check(schema, { a: 1, b: 2, c: "x" })).toEqual([]);
    expect((await check(schema, { a: "x", b: 2, c: 3 })).length).toBe(1);
  });
  test("checks each schema against its meta-schema alone, whatever was checked before", async () => {
    for (const $schema of [
      "https://json-schema.org/draft/2020-12/schema",
      "http://json-schema.org/draft-07/schema#",
    ]) {
      const schema = { $schema, $id: "https://acme.example/one", $defs: { a: { type: "string" } } };
      expect(await check({ ...schema, $ref: "#/$defs/a" }, 1)).not.toEqual([]);
      expect(await catchRefusal({ $schema, type: "strin" })).toMatchObject({ code: "package.schema" });
      expect(await catchRefusal({ $schema, $ref: "https://acme.example/one" })).toMatchObject({
        code: "package.schema",
      });
      expect(await catchRefusal({ $schema, $ref: $schema })).toMatchObject({ code: "package.schema" });
      expect(await check({ ...schema, type: "integer" }, 1)).toEqual([]);
    }
  });

  test("accepts true and false as schemas", async () => {
    expect(await check(true, 1)).toEqual([]);
    expect((await check(false, 1)).length).toBe(1);
  });
});

describe("refuses a schema that cannot be used:", () => {
  let deep: object = { type: "string" };
  for (let level = 0; level < 40; level++) deep = { properties: { a: deep } };
  test.each([
    ["too large", { description: "x".repeat(300_000) }, "larger than 256 KiB"],
    ["too deep", deep, "nested deeper than 64 levels"],
    [
      "too many references",
      { allOf: Array.from({ length: 501 }, () => ({ $ref: "#/$defs/a" })), $defs: { a: true } },
      "more than 500 references",
    ],
    ["a string", "string", "a schema must be an object, true or false"],
    ["null", null, "a schema must be an object, true or false"],
    ["asynchronous", { $async: true, type: "object" }, "$async"],
    [
      "a remote reference",
      { properties: { a: { $ref: "http://example.com/x" } } },
      '$ref "http://example.com/x" points outside',
    ],
    ["a reference to a file", { $ref: "file:///etc/passwd" }, "points outside"],
    ["an invalid keyword", { required: "a" }, "schema is invalid"],
    ["look-around", { pattern: "(?=a)b" }, "look-around and back-references are not supported"],
    ["a broken pattern", { patternProperties: { "(": true } }, "missing closing )"],
  ])("%s", async (_name, schema, reason) => {
    const error = await catchRefusal(schema);
    expect(error.code).toBe("package.schema");
    expect(error.message).toContain(reason);
  });
});

/** The longest time that the event loop was blocked while `work` ran. */
async function measureLongestBlock(work: () => Promise<unknown>): Promise<number> {
  let longest = 0;
  let last = performance.now();
  const timer = setInterval(() => {
    longest = Math.max(longest, performance.now() - last);
    last = performance.now();
  }, 1);
  try {
    await work();
    longest = Math.max(longest, performance.now() - last);
  } finally {
    clearInterval(timer);
  }
  return longest;
}

describe("the time of an evaluation", () => {
  verifies("pkg.schema-files", "is linear for a pattern that would backtrack in other engines", async () => {
    const checkValue = await schemas.compile("evil", { type: "string", pattern: "^(a+)+$" });
    const blocked_ms = await measureLongestBlock(async () => {
      expect(await checkValue(`${"a".repeat(60_000)}!`)).toEqual([
        { path: "", message: 'must match the pattern "^(a+)+$"' },
      ]);
      expect(await checkValue(`${"a".repeat(900_000)}!`)).toEqual([
        { path: "", message: 'must match the pattern "^(a+)+$"' },
      ]);
      expect(await checkValue("a".repeat(900_000))).toEqual([]);
    });
    // Exponential backtracking would not end within the test.
    expect(blocked_ms).toBeLessThan(1_000);
  });

  const limited = createSchemas({ worker: bundled, check_ms: 200 });
  afterAll(() => limited.close());

  verifies(
    "pkg.schema-files",
    "is limited for a schema whose work doubles at each level, without blocking the host",
    async () => {
      const doubling = {
        $ref: "#/$defs/n",
        $defs: {
          n: {
            type: "object",
            oneOf: [
              { properties: { x: { $ref: "#/$defs/n" } }, required: ["x"] },
              { properties: { x: { $ref: "#/$defs/n" } }, required: ["x"] },
            ],
          },
        },
      };
      let value: unknown = {};
      for (let level = 0; level < 40; level++) value = { x: value };
      const checkValue = await limited.compile("doubling", doubling);
      const blocked_ms = await measureLongestBlock(async () => {
        expect(await checkValue(value)).toEqual([
          { path: "", message: "comparing it with the schema takes longer than 200 ms" },
        ]);
      });
      expect(blocked_ms).toBeLessThan(1_000);
      const harmless = await limited.compile("harmless", { type: "array", items: { type: "string" } });
      expect(await harmless(Array.from({ length: 30_000 }, () => "x"))).toEqual([]);
    },
  );

  test("is limited for references that double without recursion", async () => {
    const $defs: Record<string, object> = { n0: { type: "string", minLength: 5 } };
    for (let level = 1; level <= 26; level++) {
      $defs[`n${level}`] = { anyOf: [{ $ref: `#/$defs/n${level - 1}` }, { $ref: `#/$defs/n${level - 1}` }] };
    }
    const checkValue = await limited.compile("folded", { $ref: "#/$defs/n26", $defs });
    const blocked_ms = await measureLongestBlock(async () => {
      expect(await checkValue("x")).toEqual([
        { path: "", message: "comparing it with the schema takes longer than 200 ms" },
      ]);
    });
    expect(blocked_ms).toBeLessThan(1_000);
  });

  test("is limited for a schema that is a reference to itself, and an issue is reported", async () => {
    expect(await check({ $ref: "#" }, 1)).toEqual([
      { path: "", message: "cannot be compared with the schema" },
    ]);
  });

  test("is not spent again soon after three timeouts of the same schema", async () => {
    const recursive = {
      type: "object",
      anyOf: [{ properties: { x: { $ref: "#" } } }, { properties: { x: { $ref: "#" } } }],
      not: { $ref: "#/$defs/no" },
      $defs: {
        no: {
          properties: { x: { $ref: "#/$defs/no" } },
          oneOf: [
            { properties: { x: { $ref: "#/$defs/no" } } },
            { properties: { x: { $ref: "#/$defs/no" } } },
          ],
        },
      },
    };
    let value: unknown = {};
    for (let level = 0; level < 60; level++) value = { x: value };
    const checkValue = await limited.compile("striking", recursive);
    for (let round = 0; round < 3; round++)
      expect((await checkValue(value))[0]?.message).toContain("takes longer");
    const started = performance.now();
    expect((await checkValue(value))[0]?.message).toContain("takes longer");
    expect(performance.now() - started).toBeLessThan(200);
  });

  test("has a limit that also applies to compiling a schema", async () => {
    const limited = createSchemas({ worker: bundled, vet_ms: 1 });
    const branch = (level: number): object =>
      level === 0
        ? { type: "string" }
        : { anyOf: Array.from({ length: 6 }, () => ({ properties: { a: branch(level - 1) } })) };
    await expect(limited.compile("slow", branch(4))).rejects.toMatchObject({
      code: "package.schema",
      message: expect.stringContaining("takes longer than 1 ms") as string,
    });
    await limited.close();
  });

  test("excludes the time in which the worker waits for a processor", async () => {
    // Like a thread that is not scheduled, the worker uses no CPU time before it replies.
    const program = `import { parentPort } from "node:worker_threads";
      const vetted = { worker_only: true, weight: 1, quadratic: false, formats: false, pattern_ms: 0 };
      parentPort.on("message", () => {
        Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1_500);
        parentPort.postMessage({ kind: "vetted", vetted });
      });
      parentPort.postMessage("ready");`;
    const worker = new URL(`data:text/javascript,${encodeURIComponent(program)}`);
    const starved = createSchemas({ worker, vet_ms: 500 });
    await expect(starved.compile("any", {})).resolves.toBeTypeOf("function");
    await starved.close();
  });

  test("is not spent on the thread of the host when all items are compared with one another", async () => {
    const unique = await schemas.compile("unique", { type: "array", uniqueItems: true });
    // Less than 64 kB, but fifty million comparisons.
    const issues = unique(Array.from({ length: 10_000 }, (_, index) => index));
    expect(issues).toBeInstanceOf(Promise);
    expect((await issues).length).toBeLessThanOrEqual(1);
    expect(await unique([1, 2, 1])).toEqual([
      { path: "", message: "must not have duplicate items (items ## 0 and 2 are identical)" },
    ]);
  });

  test("is not spent on a value that is not JSON, which is reported as an issue", async () => {
    const recursive = await schemas.compile("fn", { properties: { a: { $ref: "#" } } });
    expect(await recursive({ a: () => 1 })).toEqual([{ path: "", message: "is not a JSON value" }]);
  });
});

test("validates small inputs synchronously, and large inputs and expensive schemas in the worker, with the same result", async () => {
  const list = await schemas.compile("list", { type: "array", items: { type: "number" } });
  const tree = await schemas.compile("tree", { type: "object", properties: { next: { $ref: "#" } } });
  const now = list([1]);
  expect(now).not.toBeInstanceOf(Promise);
  const later = list(Array.from({ length: 40_000 }, () => 1));
  expect(later).toBeInstanceOf(Promise);
  expect([await now, await later]).toEqual([[], []]);
  const bad = tree({ next: { next: 3 } });
  expect(bad).toBeInstanceOf(Promise);
  expect(await bad).toEqual([{ path: "/next/next", message: "must be object" }]);
});

test("compiles a schema once per key, and does not cache a refused schema", async () => {
  const first = schemas.compile("same", { type: "string" });
  expect(await schemas.compile("same", { type: "string" })).toBe(await first);
  await expect(schemas.compile("changing", { type: "nope" })).rejects.toMatchObject({
    code: "package.schema",
  });
  expect(await (await schemas.compile("changing", { type: "string" }))("x")).toEqual([]);
});
