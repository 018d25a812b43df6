/** A gateway that runs in this process from the source files, with its own home. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { onTestFinished } from "vitest";
import { type Gateway, loadConfig, startGateway } from "../../src/index.ts";

/** `toml` is the gateway's configuration file. */
export async function startTestGateway(bundled_roots: readonly string[], toml = ""): Promise<Gateway> {
  const home = mkdtempSync(join(tmpdir(), "backplane-gateway-"));
  writeFileSync(join(home, "backplane.toml"), toml);
  const config = loadConfig({ home, env: {}, flags: { port: 0, log_level: "silent" } });
  const gateway = await startGateway({ ...config, plugins: { bundled_roots } });
  onTestFinished(async () => {
    await gateway.stop();
    rmSync(home, { recursive: true, force: true });
  });
  return gateway;
}

/** JSON over HTTP with the admin token. */
export async function request<T = Record<string, never>>(
  gateway: Gateway,
  method: string,
  path: string,
  body?: unknown,
): Promise<{ status: number; body: T }> {
  const token = readFileSync(gateway.admin_token_file, "utf8").trim();
  const headers = { authorization: `Bearer ${token}`, "content-type": "application/json" };
  const payload = body === undefined ? {} : { body: JSON.stringify(body) };
  const response = await fetch(gateway.url + path, { method, headers, ...payload });
  return { status: response.status, body: (await response.json()) as T };
}
