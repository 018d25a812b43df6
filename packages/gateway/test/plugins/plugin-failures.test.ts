import { resolve } from "node:path";
import type { PluginView } from "@backplane/contract";
import { expect } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import type { Gateway } from "../../src/index.ts";
import { request, startTestGateway } from "../support/gateway.ts";

/** `faulty` throws on every user message. */
const ROOTS = [
  "plugins/llm-echo",
  "plugins/strategy-react",
  "packages/gateway/test/fixtures/plugins/faulty",
].map((root) => resolve(root));

async function sendMessage(gateway: Gateway): Promise<void> {
  const body = { session_id: "s", input: { text: "/say hello" } };
  const run = await request<{ status: string }>(gateway, "POST", "/v1/runs?wait=true", body);
  // The failing plugin does not fail the turn.
  expect(run.body.status).toBe("completed");
}

async function readStatus(gateway: Gateway): Promise<string | undefined> {
  const { items } = (await request<{ items: PluginView[] }>(gateway, "GET", "/v1/plugins")).body;
  return items.find(({ name }) => name === "faulty")?.status;
}

verifies(
  "plug.failures",
  "unloads a plugin after three consecutive failures, or after the configured number",
  async () => {
    const gateway = await startTestGateway(ROOTS);
    await sendMessage(gateway);
    await sendMessage(gateway);
    expect(await readStatus(gateway)).toBe("loaded");
    await sendMessage(gateway);
    await expect.poll(() => readStatus(gateway)).toBe("failed");
    const strict = await startTestGateway(ROOTS, "[agent]\nplugin_failures = 1\n");
    await sendMessage(strict);
    await expect.poll(() => readStatus(strict)).toBe("failed");
  },
);
