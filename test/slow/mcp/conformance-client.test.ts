/**
 * Runs the client scenarios of the public MCP conformance suite against the gateway's MCP client. Scenarios with a sign-in
 * run through a gateway with a simulated user, the others through a runner. The suite lists the scenarios that a revision
 * requires; those of an older revision and of the supported extension are run as well. docs/mcp-servers.md lists the
 * scenarios that do not apply.
 */
import { execFile } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { startTestGateway, type TestGateway } from "../../support/gateway/gateway.ts";
import { peerFile } from "../../support/registries/peers.ts";

const SUITE = peerFile("@modelcontextprotocol/conformance/dist/index.js");
const CLIENT = resolve("scripts/mcp-conformance-client.ts");
const SLOT = resolve("scripts/mcp-conformance-slot.ts");
const MAX_CLIENTS = 2;
/** Long enough for a busy machine; it only ends a client that hangs. */
const CLIENT_MS = 600_000;
/** Scenarios of extensions that are not supported. Those for skills (SEP-2640) check nothing in such a client. */
const SKIPPED = /^[✓✗] (auth\/(dpop|dpop-nonce|enterprise-managed-authorization|wif-jwt-bearer)|sep-2640-)/;

let gateway: TestGateway;
let folder: string;
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "backplane-conformance-"));
  const home = join(folder, "home");
  mkdirSync(home);
  // The suite listens on random ports of this machine and expects this client name.
  const lines = ["[listen]", 'public_url = "https://conformance-test.local"', "[egress]"];
  writeFileSync(join(home, "backplane.toml"), [...lines, 'allow_private = ["localhost:*"]', ""].join("\n"));
  gateway = await startTestGateway({ home });
}, 60_000);
afterAll(async () => {
  await gateway?.dispose();
  rmSync(folder, { recursive: true, force: true });
});

test.each([
  ["--requirements", "2025-11-25", 18],
  ["--requirements", "2026-07-28", 30],
  ["--suite", "backcompat", 2],
  ["--suite", "extensions", 2],
])("passes the client scenarios of %s %s", async (flag, value, min_passed) => {
  const lines = (await runScenarios(flag, value)).filter((line) => !SKIPPED.test(line));
  expect(lines.filter((line) => line.startsWith("✗ "))).toEqual([]);
  // A suite that did not run would report no failure.
  expect(lines.filter((line) => line.startsWith("✓ ")).length).toBeGreaterThanOrEqual(min_passed);
  expect(lines.filter((line) => / [1-9]\d* warnings/.test(line))).toEqual([]);
});

/** Returns the result lines of the suite's summary, one per scenario. */
async function runScenarios(...selection: string[]): Promise<string[]> {
  const slots = mkdtempSync(join(folder, "slots-"));
  const command = [process.execPath, SLOT, slots, MAX_CLIENTS, process.execPath, CLIENT].join(" ");
  const args = [SUITE, "client", ...selection, "--timeout", String(CLIENT_MS), "--command", command];
  const env = { ...process.env, BACKPLANE_URL: gateway.url, BACKPLANE_TOKEN: gateway.token };
  const output = await new Promise<string>((done) => {
    execFile(process.execPath, args, { cwd: folder, env, maxBuffer: 64 << 20 }, (_error, stdout, stderr) =>
      done(stdout + stderr),
    );
  });
  const at = output.indexOf("SUMMARY ===");
  return (at < 0 ? output : output.slice(at)).split("\n").filter((line) => /^[✓✗] /.test(line));
}
