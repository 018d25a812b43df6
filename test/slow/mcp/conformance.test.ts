/**
 * The public MCP conformance suite: the fixture server passes it alone, then the gateway passes it with the fixture as a
 * plugin. The suite's own list defines what a revision requires; other scenarios are not counted (docs/mcp.md).
 */
import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { FIXTURE, type McpFixture, startMcpFixture } from "../../support/mcp/mcp-fixture.ts";
import { peerFile } from "../../support/registries/peers.ts";

const SUITE = peerFile("@modelcontextprotocol/conformance/dist/index.js");
const REVISIONS = ["2025-11-25", "2026-07-28"];
/** Extensions that the gateway does not support, and checks that the suite marks as pending. */
const NOT_COUNTED =
  /^✗ (tasks-|http-custom-header-server-validation|http-header-validation|server-sse-polling)/;

let fixture: McpFixture;
beforeAll(async () => {
  fixture = await startMcpFixture();
}, 60_000);
afterAll(() => fixture.dispose());

describe.each(REVISIONS)("the conformance suite of revision %s", (revision) => {
  test("passes with the fixture server alone", { timeout: 180_000 }, async () => {
    const server = spawn(process.execPath, [join(FIXTURE, "server.mjs"), "--http"], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    try {
      const [line] = (await once(createInterface({ input: server.stdout }), "line")) as [string];
      expect(await findFailures((JSON.parse(line) as { url: string }).url, revision)).toEqual([]);
    } finally {
      server.kill("SIGKILL");
    }
  });

  test("passes with the gateway in front of the fixture server", { timeout: 180_000 }, async () => {
    expect(await findFailures(fixture.url, revision)).toEqual([]);
  });
});

/** The lines of the summary that count against the revision. */
async function findFailures(url: string, revision: string): Promise<string[]> {
  const args = [SUITE, "server", "--url", url, "--requirements", revision];
  const output = await new Promise<string>((done) => {
    execFile(process.execPath, args, { maxBuffer: 64 * 1024 * 1024 }, (_error, stdout, stderr) =>
      done(stdout + stderr),
    );
  });
  const summary = output.slice(output.indexOf("=== SUMMARY ==="));
  // A suite that did not run would report no failure.
  expect(summary.match(/^✓ /gm)?.length ?? 0).toBeGreaterThan(25);
  return summary.split("\n").filter((line) => line.startsWith("✗ ") && !NOT_COUNTED.test(line));
}
