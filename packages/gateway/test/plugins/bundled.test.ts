import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { expect, onTestFinished } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { type Gateway, loadConfig, startGateway } from "../../src/index.ts";

const ALL = readdirSync("plugins").map((name) => resolve("plugins", name));

async function boot(bundled_roots: readonly string[]): Promise<Gateway> {
  const home = mkdtempSync(join(tmpdir(), "backplane-bundled-"));
  const config = loadConfig({ home, env: {}, flags: { port: 0, log_level: "silent" } });
  const gateway = await startGateway({ ...config, plugins: { bundled_roots } });
  onTestFinished(async () => {
    await gateway.stop();
    rmSync(home, { recursive: true, force: true });
  });
  return gateway;
}

async function ask(gateway: Gateway, method: string, path: string, body?: unknown) {
  const token = readFileSync(gateway.admin_token_file, "utf8").trim();
  const headers = { authorization: `Bearer ${token}`, "content-type": "application/json" };
  const sent = body === undefined ? {} : { body: JSON.stringify(body) };
  const response = await fetch(gateway.url + path, { method, headers, ...sent });
  return { status: response.status, body: (await response.json()) as Record<string, never> };
}

verifies(
  "plug.discovery",
  "starts without any one of the bundled plugins",
  async () => {
    for (const left_out of ALL) {
      const gateway = await boot(ALL.filter((root) => root !== left_out));
      expect((await ask(gateway, "GET", "/readyz")).status).toBe(200);
      const { items } = (await ask(gateway, "GET", "/v1/plugins")).body as unknown as {
        items: { name: string; status: string }[];
      };
      expect(items).toHaveLength(ALL.length - 1);
      expect(items.filter(({ status }) => status !== "loaded")).toEqual([]);
    }
    const gateway = await boot([]);
    const run = await ask(gateway, "POST", "/v1/runs", { session_id: "s", input: { text: "hello" } });
    expect(run.body.error).toMatchObject({
      code: "request.invalid",
      message: expect.stringContaining("react"),
    });
  },
  60_000,
);
