/** Input schemas that require a property and give it a default, as zod 4 writes them. */
import type { JsonObject } from "@backplane/contract";
import { ToolExportSchema } from "@backplane/contract/schema";
import { manifest, toolExport } from "@backplane/test-kit/kernel/manifests";
import { createTestKernel, type TestKernel } from "@backplane/test-kit/kernel/test-kernel";
import { expect, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";

const SEARCH: JsonObject = {
  type: "object",
  properties: {
    city: { type: "string" },
    units: { type: "string", enum: ["metric", "imperial"], default: "metric" },
    page: {
      type: "object",
      properties: { size: { type: "integer", default: 10 }, cursor: { type: "string" } },
      required: ["size", "cursor"],
    },
  },
  required: ["city", "units"],
};

async function bindServer(fixture: TestKernel, schema: JsonObject): Promise<void> {
  fixture.runner.description = () => ({
    exports: [
      ToolExportSchema.parse({
        id: "mcp_weather_search",
        kind: "tool",
        description: "Searches.",
        tool: { effect_class: "read_only", input_schema: "described/search.json" },
      }),
    ],
    schemas: { "described/search.json": schema },
    warnings: [],
    info: {},
  });
  const runtime = { protocol: "mcp.stdio", entrypoint: ["node", "server.js"] } as const;
  await fixture.bind(manifest([], { package_id: "acme/weather", runtime }));
}

verifies(
  "input.defaults",
  "sends input to an MCP server as the caller wrote it, even without a required property that has a default",
  async () => {
    const fixture = await createTestKernel();
    await bindServer(fixture, SEARCH);
    const call = (input: JsonObject) => fixture.call({ export_id: "mcp_weather_search", input });
    for (const input of [{ city: "Oslo" }, { city: "Oslo", page: { cursor: "a" } }] as JsonObject[]) {
      const done = await call(input);
      expect(done).toMatchObject({ status: "succeeded", input });
      expect(fixture.runner.requests.at(-1)!.body).toMatchObject({ input });
    }
    await expect(call({ units: "metric" })).rejects.toMatchObject({
      code: "input.invalid",
      message: 'the input: must have the property "city"',
    });
    await expect(call({ city: "Oslo", units: "kelvin" })).rejects.toMatchObject({ code: "input.invalid" });
    await expect(call({ city: "Oslo", page: {} })).rejects.toMatchObject({
      message: '/page: must have the property "cursor"',
    });
  },
);

test("accepts input that matches one branch of a oneOf, even if defaults would make it match two", async () => {
  const fixture = await createTestKernel();
  await bindServer(fixture, {
    oneOf: [
      { required: ["a"], properties: { a: { type: "string" } } },
      { required: ["b"], properties: { b: { type: "string", default: "x" } } },
    ],
  });
  expect((await fixture.call({ export_id: "mcp_weather_search", input: { a: "1" } })).status).toBe(
    "succeeded",
  );
});

test("refuses input for a plugin without a required property, even if the property has a default", async () => {
  const fixture = await createTestKernel();
  const search = toolExport("search", {}, { input_schema: "search.json" });
  await fixture.bind(manifest([search]), {}, { "search.json": SEARCH });
  await expect(fixture.call({ export_id: "search", input: { city: "Oslo" } })).rejects.toMatchObject({
    code: "input.invalid",
    message: 'the input: must have the property "units"',
  });
});
