/** Tool files end to end: folders are installed with the real CLI, and their tools run in the real sandbox. */
import { expect } from "vitest";
import {
  call,
  callForText,
  cli,
  type EndedCall,
  gateway,
  type ToolList,
  useToolFolders,
  writeToolsFolder,
} from "../support/plugins/tool-folders.ts";
import { verifies } from "../support/verifies.ts";

useToolFolders();

const NOTES = `
import type { ToolContext, ToolExecutionResult } from "@vellumai/plugin-api";
export default {
  description: "Search saved notes for a phrase.",
  defaultRiskLevel: "low" as const,
  category: "notes",
  input_schema: { type: "object", properties: { query: { type: "string" } }, required: ["query"] },
  async execute(input: Record<string, unknown>, ctx: ToolContext): Promise<ToolExecutionResult> {
    return { content: "looked for " + input.query, isError: false, status: "complete" };
  },
};
`;

verifies(
  ["tools.file", "tools.fields", "tools.input", "tools.isolated-failure"],
  "installs a folder and lists its tools, each with its fields or its error",
  async () => {
    const path = writeToolsFolder("notes", {
      "tools/search_notes.ts": NOTES,
      "tools/empty.ts": "export default {};",
      "tools/throws.ts": 'throw new Error("at import");',
      "tools/syntax.ts": "export default {",
      "tools/schema.js": 'export default { input_schema: { type: "nonsense" } };',
    });
    const { stdout, stderr } = await cli("plugin", "install", path);
    expect(stdout).toContain("Installed local/notes@0.0.0-d");
    expect(stderr).toContain("Tools: empty, search_notes\n");
    for (const name of ["schema", "syntax", "throws"]) {
      expect(stderr).toContain(`${name} is not offered: it cannot run: `);
    }
    const offered = await gateway.http<{ items: { name: string; package_id: string }[] }>(
      "GET",
      "/v1/catalog",
    );
    const notes_tools = offered.body.items.filter(({ package_id }) => package_id === "local/notes");
    expect(notes_tools.map(({ name }) => name)).toEqual(["empty", "search_notes"]);
    const { body } = await gateway.http<ToolList>("GET", "/v1/plugin-tools");
    const tools = new Map(body.items.map((item) => [item.export_id, item]));
    expect(tools.get("search_notes")).toMatchObject({
      package_id: "local/notes",
      description: "Search saved notes for a phrase.",
      export: { tool: { risk: "low", category: "notes", target: "sandbox" } },
    });
    expect(tools.get("empty")?.export.tool).toMatchObject({ risk: "medium", target: "sandbox" });
    expect(tools.get("throws")?.export.tool.load_error).toContain("at import");

    expect(await callForText("search_notes", { query: "tea" })).toBe("looked for tea");
    expect((await call("search_notes", { query: "tea" })).tool_result?.status).toBe("complete");
    expect(await call("search_notes", {})).toMatchObject({ error: { code: "input.invalid" } });
    expect(await callForText("empty")).toContain("no execute implementation");
    expect((await call("throws")).error).toMatchObject({
      code: "tool.load_failed",
      message: expect.stringContaining("at import"),
    });
    expect((await call("syntax")).error?.code).toBe("tool.load_failed");
    expect((await call("schema")).error?.message).toContain("input_schema");
  },
);

const CONTEXT = `export default {
  defaultRiskLevel: "low",
  execute(input, { signal, onOutput, ...rest }) {
    onOutput("working");
    return { content: JSON.stringify({ ...rest, aborted: signal.aborted }), status: "seen", yieldToUser: true };
  },
};`;

verifies(
  "tools.context",
  "passes the conversation id to a tool in a turn, streams its output, and lets it end the turn",
  async () => {
    await cli("plugin", "install", writeToolsFolder("context", { "tools/context.js": CONTEXT }));
    const { body } = await gateway.http<{ id: string; status: string; iterations: number }>(
      "POST",
      "/v1/runs?wait=60",
      { session_id: "talk", input: { text: "/tool context {}" } },
    );
    // One model call: the tool ended the turn.
    expect([body.status, body.iterations]).toEqual(["completed", 1]);
    const { body: calls } = await gateway.http<{ items: (EndedCall & { id: string })[] }>(
      "GET",
      "/v1/invocations?session_id=talk",
    );
    const { id, tool_result } = calls.items[0]!;
    expect(tool_result).toMatchObject({ status: "seen", yield_to_user: true });
    expect(JSON.parse(tool_result!.content[0]!.text!)).toEqual({
      conversationId: "talk",
      requestId: body.id,
      workingDir: "/plugin",
      assistantId: "proj_default",
      isInteractive: false,
      config: {},
      secrets: {},
      aborted: false,
    });
    const events = await cli("invocation", "events", id);
    expect(events.stdout).toContain("working");
  },
);

verifies(
  "tools.target",
  "refuses a tool that targets the host until the host administrator allows it on the binding",
  async () => {
    const default_target = "export default { execute: () => ({ content: process.cwd() }) };";
    const host_target =
      'export default { executionTarget: "host", execute: () => ({ content: process.cwd() }) };';
    const path = writeToolsFolder("hosted", {
      "package.json": JSON.stringify({ name: "@acme/hosted", version: "1.2.0" }),
      "tools/host_where.js": default_target,
      "tools/asks_where.js": host_target,
      "tools/inside_where.js": default_target,
    });
    const { stdout } = await cli("plugin", "install", path, "--json");
    const { bindings } = JSON.parse(stdout) as { bindings: { binding_id: string }[] };
    const id = bindings[0]!.binding_id;
    for (const name of ["host_where", "asks_where"]) {
      expect((await call(name)).error).toMatchObject({ code: "target.host_forbidden" });
    }
    expect(await callForText("inside_where")).toBe("/plugin");

    // A key cannot allow it, whatever its role.
    const key = await gateway.http<{ token: string }>("POST", "/v1/keys", {
      name: "operator",
      role: "admin",
      scopes: ["bindings:write", "bindings:read"],
    });
    const refused = await gateway.http(
      "PATCH",
      `/v1/plugin-bindings/${id}`,
      { policy: { host_target: true } },
      { authorization: `Bearer ${key.body.token}` },
    );
    expect(refused.status).toBe(403);

    await cli("binding", "set", id, "--host-target");
    expect(await callForText("host_where")).toBe(process.cwd());
    expect(await callForText("asks_where")).toBe(process.cwd());
    expect(await callForText("inside_where")).toBe("/plugin");
    await cli("binding", "set", id, "--no-host-target");
    expect((await call("host_where")).error?.code).toBe("target.host_forbidden");
  },
);
