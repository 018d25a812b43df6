/**
 * The client scenarios of the public MCP conformance suite against our client: scenarios with a sign-in through a gateway,
 * with a simulated person, the others through a runner. The suite's own list says what a revision requires; scenarios of
 * older revisions and of our extension are added. docs/mcp-servers.md lists the scenarios that do not apply.
 */
import { execFile } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { startTestGateway, type TestGateway } from "../support/gateway.ts";

const SUITE = resolve("node_modules/@modelcontextprotocol/conformance/dist/index.js");
const CLIENT = resolve("scripts/mcp-conformance-client.ts");
const SLOT = resolve("scripts/mcp-conformance-slot.ts");
const MAX_CLIENTS = 2;
/** Ends a client that hangs; it is not a measurement. */
const CLIENT_MS = 600_000;
/** Extensions that are not supported; the skills scenarios check nothing without such a client. */
const NOT_BUILT = /^[✓✗] (auth\/(dpop|dpop-nonce|enterprise-managed-authorization|wif-jwt-bearer)|sep-2640-)/;

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
])("client scenarios of %s %s", async (flag, value, least) => {
  const lines = (await summary(flag, value)).filter((line) => !NOT_BUILT.test(line));
  expect(lines.filter((line) => line.startsWith("✗ "))).toEqual([]);
  // A suite that did not run would report no failure.
  expect(lines.filter((line) => line.startsWith("✓ ")).length).toBeGreaterThanOrEqual(least);
  expect(lines.filter((line) => / [1-9]\d* warnings/.test(line))).toEqual([]);
});

async function summary(...how: string[]): Promise<string[]> {
  const slots = mkdtempSync(join(folder, "slots-"));
  const command = [process.execPath, SLOT, slots, MAX_CLIENTS, process.execPath, CLIENT].join(" ");
  const args = [SUITE, "client", ...how, "--timeout", String(CLIENT_MS), "--command", command];
  const env = { ...process.env, BACKPLANE_URL: gateway.url, BACKPLANE_TOKEN: gateway.token };
  const output = await new Promise<string>((done) => {
    execFile(process.execPath, args, { cwd: folder, env, maxBuffer: 64 << 20 }, (_error, stdout, stderr) =>
      done(stdout + stderr),
    );
  });
  const at = output.indexOf("SUMMARY ===");
  return (at < 0 ? output : output.slice(at)).split("\n").filter((line) => /^[✓✗] /.test(line));
}
