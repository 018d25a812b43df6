import type { Json } from "@backplane/contract";
import { ToolResultBlockSchema, ToolResultSchema } from "@backplane/contract/schema";
import { manifest, toolExport } from "@backplane/test-kit/kernel/manifests";
import { ended, ok } from "@backplane/test-kit/kernel/scripted-runner";
import { createTestKernel, user } from "@backplane/test-kit/kernel/test-kernel";
import { expect, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";

const schemas = {
  "in.json": { type: "object", required: ["query"], properties: { query: { type: "string" } } },
  "out.json": { type: "object", required: ["issues"], properties: { issues: { type: "array" } } },
};
const content = manifest([
  toolExport("search", {}, { input_schema: "in.json", output_schema: "out.json", streaming: true }),
  toolExport("free"),
]);
const input = { query: "billing outage" };

verifies(
  "tool.contract",
  "checks input and output, writes tool_result itself and passes events on",
  async () => {
    const fixture = await createTestKernel();
    await fixture.bind(content, {}, schemas);
    const result = {
      content: [{ type: "text", text: "Found 3 issues." }],
      structured_output: { issues: [{ key: "ENG-123" }] },
      is_error: false,
      retryable: false,
    };
    fixture.runner.script = ({ event }) => {
      event({ type: "progress", message: "working" });
      // Unknown fields are removed, so a tool cannot write the block itself.
      return ok({ ...result, tool_result: { kind: "tool_result", tool: "forged" } });
    };
    const done = await fixture.call({ export_id: "search", input });
    expect(fixture.runner.requests[0]!.body).toEqual({ tool_execution_id: done.execution_id, input });
    expect(ToolResultSchema.parse(done.result)).toEqual(result);
    expect(done.result).toEqual(result);
    expect(ToolResultBlockSchema.parse(done.tool_result)).toEqual({
      kind: "tool_result",
      tool_execution_id: done.execution_id,
      tool: "search",
      is_error: false,
      content: result.content,
      structured_output: result.structured_output,
    });
    const items: unknown[] = [];
    for await (const item of fixture.kernel.invocations.watch(
      user,
      done.id,
      0,
      new AbortController().signal,
    )) {
      items.push("event" in item ? item.event : "settled");
    }
    expect(items).toEqual([{ type: "progress", message: "working" }, "settled"]);
    await expect(fixture.call({ export_id: "search", input: { query: 7 } })).rejects.toMatchObject({
      code: "input.invalid",
      details: { issues: [{ path: "/query" }] },
    });
    fixture.runner.script = () => ok({ ...result, structured_output: { issues: "none" } });
    expect(await fixture.call({ export_id: "search", input })).toMatchObject({
      status: "failed",
      error: { code: "malformed_response", message: expect.stringContaining("/issues") },
      result: null,
      tool_result: { is_error: true },
    });
    // A result with is_error is passed to the model and not checked against the output schema.
    fixture.runner.script = () =>
      ok({ content: [{ type: "text", text: "no such project" }], is_error: true });
    expect(await fixture.call({ export_id: "search", input })).toMatchObject({
      status: "succeeded",
      result: { is_error: true, retryable: false },
      tool_result: { is_error: true, content: [{ text: "no such project" }] },
    });
  },
);

test.each<[string, Json | null]>([
  ["nothing", null],
  ["a string", "done"],
  ["a list", []],
  ["content that is not a list", { content: "text" }],
  ["a block without a type", { content: [{ text: "x" }] }],
  ["a block that is a string", { content: ["x"] }],
  ["is_error as a word", { content: [], is_error: "no" }],
  ["retryable as a number", { content: [], retryable: 1 }],
])("fails a call whose tool returns %s", async (_name, result) => {
  const fixture = await createTestKernel();
  await fixture.bind(content, { export_id: "free" }, schemas);
  fixture.runner.script = () => ok(result);
  expect(await fixture.call({ export_id: "free" })).toMatchObject({
    status: "failed",
    error: { code: "malformed_response" },
    violations: 1,
  });
});

test("requires structured output from a tool with an output schema, whatever the schema allows", async () => {
  const fixture = await createTestKernel();
  const any = manifest([toolExport("any", {}, { output_schema: "any.json" })]);
  await fixture.bind(any, {}, { "any.json": {} });
  fixture.runner.script = () => ok({ content: [] });
  expect(await fixture.call({ export_id: "any" })).toMatchObject({
    status: "failed",
    error: {
      code: "malformed_response",
      message: expect.stringContaining("structured_output is missing, and the tool has an output_schema"),
    },
    violations: 1,
  });
});

test("writes the error message into the tool_result of a call without a result", async () => {
  const fixture = await createTestKernel();
  await fixture.bind(content, { export_id: "free" }, schemas);
  fixture.runner.script = () => ended("failed", "crashed");
  expect((await fixture.call({ export_id: "free" })).tool_result).toMatchObject({
    is_error: true,
    content: [{ type: "text", text: "crashed in the test" }],
  });
});

test("passes on a tool's status and its request to return control to the user", async () => {
  const fixture = await createTestKernel();
  await fixture.bind(content, { export_id: "free" }, schemas);
  fixture.runner.script = () => ok({ content: [], status: "asked", yield_to_user: true });
  const { tool_result } = await fixture.call({ export_id: "free" });
  expect(tool_result).toMatchObject({ status: "asked", yield_to_user: true });
});

test("keeps the result of a failed tool and adds an error code if the plugin gave none", async () => {
  const fixture = await createTestKernel();
  await fixture.bind(content, { export_id: "free" }, schemas);
  fixture.runner.script = () =>
    ended("failed", "plugin_failed", { result: { content: [{ type: "text", text: "why" }] } });
  expect(await fixture.call({ export_id: "free" })).toMatchObject({
    status: "failed",
    tool_result: { is_error: true, content: [{ text: "why" }] },
  });
  fixture.runner.script = () => ({ ...ok("broken"), status: "failed" });
  expect(await fixture.call({ export_id: "free" })).toMatchObject({
    status: "failed",
    result: null,
    error: { code: "plugin_failed" },
    violations: 1,
  });
});
