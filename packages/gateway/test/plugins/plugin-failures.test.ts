import { resolve } from "node:path";
import type { PluginView } from "@backplane/contract";
import { expect } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import type { Gateway } from "../../src/index.ts";
import { request, startTestGateway } from "../support/gateway.ts";

/** `faulty` throws for every message of a user. */
const ROOTS = [
  "plugins/llm-echo",
  "plugins/strategy-react",
  "packages/gateway/test/fixtures/plugins/faulty",
].map((root) => resolve(root));

async function say(gateway: Gateway): Promise<void> {
  const body = { session_id: "s", input: { text: "/say hello" } };
  const run = await request<{ status: string }>(gateway, "POST", "/v1/runs?wait=true", body);
  // A plugin that fails does not end the turn.
  expect(run.body.status).toBe("completed");
}

async function statusOf(gateway: Gateway): Promise<string | undefined> {
  const { items } = (await request<{ items: PluginView[] }>(gateway, "GET", "/v1/plugins")).body;
  return items.find(({ name }) => name === "faulty")?.status;
}

verifies(
  "plug.failures",
  "unloads a plugin after three consecutive failures, or as many as the configuration says",
  async () => {
    const usual = await startTestGateway(ROOTS);
    await say(usual);
    await say(usual);
    expect(await statusOf(usual)).toBe("loaded");
    await say(usual);
    await expect.poll(() => statusOf(usual)).toBe("failed");
    const strict = await startTestGateway(ROOTS, "[agent]\nplugin_failures = 1\n");
    await say(strict);
    await expect.poll(() => statusOf(strict)).toBe("failed");
  },
);
