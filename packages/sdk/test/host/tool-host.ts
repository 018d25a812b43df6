/** Starts the real program that hosts a folder of tool files, and talks to it as the gateway does. */
import { spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { DESCRIBE_TOOLS, type JsonObject, type ToolFilesDescription } from "@backplane/contract";
import { grantWith } from "@backplane/test-kit/grant-with";
import { stdioTransport, VaiHost } from "@backplane/wire";
import { onTestFinished } from "vitest";
import { buildToolHost } from "../../../../scripts/build-tool-host.ts";

export const TOOL_HOST = fileURLToPath(new URL("../../dist/tool-host.mjs", import.meta.url));
const IDENTITY = { package_id: "acme/notes", version: "0.1.0" };

export interface ToolHost {
  folder: string;
  describe(): Promise<ToolFilesDescription>;
  call(name: string, input?: JsonObject, context?: JsonObject): Promise<ToolReply>;
  cancel(id: string): void;
  events: JsonObject[];
}

interface ToolReply {
  status: string;
  result: JsonObject & { content: { type: string; text?: string }[] };
}

export async function startToolHost(files: Record<string, string>): Promise<ToolHost> {
  const folder = mkdtempSync(join(tmpdir(), "tool-files-"));
  mkdirSync(join(folder, "tools"));
  for (const [path, text] of Object.entries(files)) writeFileSync(join(folder, path), text);
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return await hostToolFiles(folder);
}

/** Serves the tools of an existing folder. */
export async function hostToolFiles(folder: string): Promise<ToolHost> {
  await buildToolHost(TOOL_HOST);
  const args = [TOOL_HOST, "serve", folder, IDENTITY.package_id, IDENTITY.version];
  const child = spawn(process.execPath, args, { stdio: ["pipe", "pipe", "inherit"], cwd: folder });
  onTestFinished(() => void child.kill("SIGKILL"));
  const events: JsonObject[] = [];
  const host = new VaiHost({
    transport: stdioTransport(child.stdout, child.stdin),
    identity: IDENTITY,
    host: { name: "test", version: "0.0.0" },
    onViolation() {},
    onFailure() {},
  });
  await host.hello();
  let calls = 0;
  const call = async (name: string, input: JsonObject = {}, context: JsonObject = {}): Promise<ToolReply> => {
    const id = `inv_${++calls}`;
    const body = { export_id: name, tool_execution_id: id, input, context: { ...contextOf(id), ...context } };
    const response = await host.request(id, "tool.invoke", body, (event) => events.push(event));
    if (!response.ok) throw new Error(response.error.message);
    return response.body as unknown as ToolReply;
  };
  return {
    folder,
    events,
    call,
    cancel: (id) => host.cancel(id, "cancelled_by_user"),
    describe: async () =>
      (await call(DESCRIBE_TOOLS)).result.structured_output as unknown as ToolFilesDescription,
  };
}

function contextOf(invocation_id: string): JsonObject {
  return {
    invocation_id,
    trace_id: "trace_1",
    org_id: "org_local",
    deadline_at: new Date(Date.now() + 60_000).toISOString(),
    gateway: { base_url: "http://127.0.0.1:1", scopes: [] },
    config: {},
    secrets: {},
    grant: grantWith() as unknown as JsonObject,
  };
}
