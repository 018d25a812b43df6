/** Upgrades of a real plugin in a real gateway: what a candidate does before and after traffic moves to it. */
import type { ReplayReport } from "@backplane/contract";
import { afterAll, beforeAll, expect } from "vitest";
import { startTestGateway, type TestGateway } from "../support/gateway.ts";
import { installAndBind, vaiProgram, writePluginFolder } from "../support/plugin-folder.ts";
import { verifies } from "../support/verifies.ts";

const PACKAGE = "acme/notes";

let gateway: TestGateway;
beforeAll(async () => {
  gateway = await startTestGateway();
});
afterAll(() => gateway.dispose());

/** The tool `find` answers with its input and what `more` adds. */
function writeVersion(version: string, more: string): string {
  const handle = `async ({ body: { input, context } }) => {
    const extra = await (${more})(input, context);
    return { status: "succeeded", result: { content: [], structured_output: { input, ...extra } } };
  }`;
  return writePluginFolder({
    package_id: PACKAGE,
    version,
    entrypoint: ["node", "plugin.mjs"],
    files: { "plugin.mjs": vaiProgram(PACKAGE, handle, version) },
    exports: [{ id: "find" }],
  });
}

async function find(text: string): Promise<{ id: string; status: string; package_version: string }> {
  const body = { export_id: "find", input: { text } };
  return (
    await gateway.http<{ id: string; status: string; package_version: string }>(
      "POST",
      "/v1/invocations?wait=30",
      body,
    )
  ).body;
}

verifies(
  "upgrade.replay",
  "holds a real candidate that dials another host and reads no secret, while the old version keeps serving",
  async () => {
    await installAndBind(gateway, writeVersion("1.0.0", "() => ({})"), ["find"]);
    for (const text of ["a", "b"]) expect(await find(text)).toMatchObject({ status: "succeeded" });
    const dials = `async (input, context) => {
      const { connect } = await import("node:net");
      if (input.text === "b") await new Promise((resolve) => {
        const socket = connect(443, "192.0.2.7");
        socket.once("error", resolve);
        socket.once("connect", resolve);
      });
      return { secrets: Object.values(context.secrets).map((value) => value.length), loud: input.text === "b" };
    }`;
    const ran = await gateway.cli(
      "plugin",
      "replay",
      PACKAGE,
      "--candidate",
      writeVersion("1.1.0", dials),
      "--json",
    );
    expect(ran).toMatchObject({ code: 3 });
    const report = JSON.parse(ran.stdout) as ReplayReport;
    expect(report).toMatchObject({
      verdict: "held",
      counts: { changed: 2, failed: 0 },
      permissions: { attempted: [{ host: "192.0.2.7", port: 443 }] },
      latency: { ratio: expect.any(Number) },
    });
    // The candidate got the placeholder in place of the secret.
    const sizes = report.calls[0]!.differences.find(({ path }) => path === "/structured_output/secrets");
    expect(sizes).toMatchObject({ candidate: ["replay-without-secret".length] });
    expect(await find("c")).toMatchObject({ status: "succeeded", package_version: "1.0.0" });
    const listed = await gateway.http<{ items: unknown[] }>("GET", "/v1/invocations");
    expect(listed.body.items).toHaveLength(3);
  },
  120_000,
);
