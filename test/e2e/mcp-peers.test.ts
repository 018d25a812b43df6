import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { type McpFixture, startMcpFixture } from "../support/mcp/mcp-fixture.ts";
import { verifies } from "../support/verifies.ts";

let fixture: McpFixture;
let home: string;
beforeAll(async () => {
  home = mkdtempSync(join(tmpdir(), "backplane-peers-"));
  fixture = await startMcpFixture();
}, 60_000);
afterAll(async () => {
  await fixture.dispose();
  rmSync(home, { recursive: true, force: true });
});

async function connect(path: string, mode: "legacy" | "auto") {
  const client = new Client(
    { name: "peer", version: "1.0.0" },
    {
      capabilities: { sampling: {}, elicitation: { form: {} }, roots: {} },
      ...(mode === "auto" ? { versionNegotiation: { mode } } : {}),
    },
  );
  client.setRequestHandler("sampling/createMessage", ({ params }) => {
    const [first] = params.messages;
    const content = Array.isArray(first!.content) ? first!.content[0]! : first!.content;
    const question = content.type === "text" ? content.text : "";
    return {
      role: "assistant",
      model: "peer-model",
      content: { type: "text", text: `peer says ${question}` },
    };
  });
  client.setRequestHandler("elicitation/create", () => ({ action: "accept", content: { name: "Alice" } }));
  client.setRequestHandler("roots/list", () => ({ roots: [{ uri: "file:///peer", name: "peer" }] }));
  const log_messages: string[] = [];
  client.setNotificationHandler(
    "notifications/message",
    ({ params }) => void log_messages.push(String(params.data)),
  );
  const headers = { authorization: `Bearer ${fixture.gateway.token}` };
  await client.connect(
    new StreamableHTTPClientTransport(new URL(fixture.gateway.url + path), { requestInit: { headers } }),
  );
  return { client, log_messages };
}

const textOf = (result: { content: unknown[] }): string => (result.content[0] as { text: string }).text;

describe.each(["legacy", "auto"] as const)("with the official client in %s mode", (mode) => {
  verifies(
    "mcp.server",
    "serves the catalog and the features of its servers to the official client, server requests included",
    async () => {
      const { client } = await connect("/mcp", mode);
      try {
        const { tools } = await client.listTools();
        expect(tools.map(({ name }) => name)).toContain("mcp_conformance_test_sampling");
        const sampled = await client.callTool({
          name: "mcp_conformance_test_sampling",
          arguments: { prompt: "hello" },
        });
        expect(textOf(sampled)).toBe("LLM response: peer says hello");
        const greeted = await client.callTool({
          name: "mcp_conformance_test_input_required_result_elicitation",
        });
        expect(textOf(greeted)).toBe("Hello, Alice!");
        const roots = await client.callTool({
          name: "mcp_conformance_test_input_required_result_list_roots",
        });
        expect(textOf(roots)).toBe("file:///peer");
        const { resources } = await client.listResources();
        expect(resources.map(({ uri }) => uri)).toContain("test://static-text");
        const read = await client.readResource({ uri: "test://template/7/data" });
        expect(JSON.stringify(read.contents)).toContain("Data for ID: 7");
        const { prompts } = await client.listPrompts();
        expect(prompts.map(({ name }) => name)).toContain("mcp_conformance_test_simple_prompt");
        const prompt = await client.getPrompt({
          name: "mcp_conformance_test_prompt_with_arguments",
          arguments: { arg1: "a", arg2: "b" },
        });
        expect(JSON.stringify(prompt.messages)).toContain("arg1='a', arg2='b'");
        const completed = await client.complete({
          ref: { type: "ref/prompt", name: "mcp_conformance_test_prompt_with_arguments" },
          argument: { name: "arg1", value: "par" },
        });
        expect(completed.completion.values).toEqual(["paris", "park", "party"]);
      } finally {
        await client.close();
      }
    },
  );

  test("serves one server under its own tool names and forwards its log messages", async () => {
    const { client, log_messages } = await connect("/mcp/servers/conformance", mode);
    try {
      const { tools } = await client.listTools();
      expect(tools.map(({ name }) => name)).toContain("test_simple_text");
      expect(tools.map(({ name }) => name)).not.toContain("agent");
      const { prompts } = await client.listPrompts();
      expect(prompts.map(({ name }) => name)).toContain("test_simple_prompt");
      const result = await client.callTool({ name: "test_tool_with_logging" });
      expect(textOf(result)).toBe("Messages were logged");
      if (mode === "legacy") expect(log_messages).toContain("Tool processing data");
    } finally {
      await client.close();
    }
  });
});

verifies("mcp.server", "applies approvals and policy at the endpoint of one server too", async () => {
  const { gateway, binding_id } = fixture;
  const patched = await gateway.http("PATCH", `/v1/plugin-bindings/${binding_id}`, {
    policy: { approval: "always" },
  });
  expect(patched.status).toBe(200);
  const { client } = await connect("/mcp/servers/conformance", "legacy");
  try {
    const call = client.callTool({ name: "test_simple_text" });
    const waiting = await vi.waitFor(
      async () => {
        const { body } = await gateway.http<{ items: { id: string }[] }>(
          "GET",
          "/v1/approvals?status=pending",
        );
        expect(body.items).toHaveLength(1);
        return body.items[0]!;
      },
      { timeout: 20_000, interval: 50 },
    );
    const answered = await gateway.http("POST", `/v1/approvals/${waiting.id}:answer`, { response: "reject" });
    expect(answered.status).toBe(200);
    expect(await call).toMatchObject({
      isError: true,
      _meta: { "backplane/error": { code: "approval.rejected" } },
    });
  } finally {
    await client.close();
    await gateway.http("PATCH", `/v1/plugin-bindings/${binding_id}`, { policy: {} });
  }
});

verifies(
  "mcp.server",
  "a resource or prompt that needs approval waits for it, at either endpoint",
  async () => {
    const { gateway, binding_id } = fixture;
    await gateway.http("PATCH", `/v1/plugin-bindings/${binding_id}`, { policy: { approval: "always" } });
    const answer = async (response: "approve" | "reject", question: object) => {
      const waiting = await vi.waitFor(
        async () => {
          const path = "/v1/approvals?status=pending";
          const { body } = await gateway.http<{ items: { id: string; tool: string; input: object }[] }>(
            "GET",
            path,
          );
          expect(body.items).toHaveLength(1);
          return body.items[0]!;
        },
        { timeout: 20_000, interval: 50 },
      );
      expect(waiting).toMatchObject({
        tool: "server_request",
        input: { asked: question, for_binding: binding_id },
      });
      await gateway.http("POST", `/v1/approvals/${waiting.id}:answer`, { response });
    };
    const uri = "test://template/7/data";
    for (const [path, mode] of [
      ["/mcp", "auto"],
      ["/mcp/servers/conformance", "legacy"],
    ] as const) {
      const { client } = await connect(path, mode);
      try {
        const reading = client.readResource({ uri });
        await answer("approve", { method: "resources/read", uri });
        expect(JSON.stringify((await reading).contents)).toContain("Data for ID: 7");
        const refused = client.readResource({ uri });
        refused.catch(() => undefined);
        await answer("reject", { method: "resources/read", uri });
        await expect(refused).rejects.toThrow("rejected");
        const { prompts } = await client.listPrompts();
        const { name } = prompts.find((prompt) => prompt.name.endsWith("test_simple_prompt"))!;
        const prompt = client.getPrompt({ name });
        await answer("approve", { method: "prompts/get", name: "test_simple_prompt" });
        expect((await prompt).messages).not.toEqual([]);
      } finally {
        await client.close();
      }
    }
    await gateway.http("PATCH", `/v1/plugin-bindings/${binding_id}`, { policy: {} });
  },
);

test("notifies a subscriber of a changed resource until it unsubscribes", async () => {
  const { client } = await connect("/mcp", "legacy");
  const updated: string[] = [];
  client.setNotificationHandler(
    "notifications/resources/updated",
    ({ params }) => void updated.push(params.uri),
  );
  const touch = () => client.callTool({ name: "mcp_conformance_test_touch_resource" });
  try {
    await touch();
    await client.subscribeResource({ uri: "test://watched-resource" });
    await vi.waitFor(
      async () => {
        await touch();
        expect(updated).toContain("test://watched-resource");
      },
      { timeout: 10_000, interval: 200 },
    );
    await client.unsubscribeResource({ uri: "test://watched-resource" });
    await touch();
    const count = updated.length;
    await touch();
    expect(updated.length).toBe(count);
    await expect(client.subscribeResource({ uri: "test://nowhere" })).rejects.toThrow();
  } finally {
    await client.close();
  }
});

test("records a resource read in the audit log and a call with a server request as an invocation", async () => {
  const { client } = await connect("/mcp", "legacy");
  try {
    await client.readResource({ uri: "test://static-text" });
    const called = await client.callTool({
      name: "mcp_conformance_test_sampling",
      arguments: { prompt: "x" },
    });
    const id = (called._meta as Record<string, string>)["backplane/invocation_id"];
    const invocation = await fixture.gateway.http("GET", `/v1/invocations/${id}`);
    expect(invocation.body).toMatchObject({
      export_id: "mcp_conformance_test_sampling",
      status: "succeeded",
    });
  } finally {
    await client.close();
  }
  const audit = await fixture.gateway.http<{ items: object[] }>("GET", "/v1/audit?action=server.request");
  expect(audit.body.items).toContainEqual(
    expect.objectContaining({
      subject: fixture.binding_id,
      details: { method: "resources/read", uri: "test://static-text" },
    }),
  );
});
