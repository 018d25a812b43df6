/** What plugins say of themselves, in doctor's table and exit code. */
import { afterEach, beforeEach, expect, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { EXIT } from "../../src/index.ts";
import { startTestGateway, type TestGateway } from "../support/gateway.ts";
import { kernelPluginFolder } from "../support/kernel-plugin.ts";

interface Report {
  status: string;
  checks: { name: string; status: string; message: string; fix?: string }[];
}

let gateway: TestGateway;
beforeEach(async () => {
  gateway = await startTestGateway();
});
afterEach(() => gateway.close());

async function doctor(...argv: string[]) {
  const { exit, out } = await gateway.backplane(["doctor", "--json", ...argv]);
  const report = JSON.parse(out) as Report;
  const plugin = (name: string) => report.checks.find((check) => check.name === `plugin ${name}`);
  return { exit, report, plugin };
}

async function install(name: string, body: string): Promise<void> {
  const folder = kernelPluginFolder(name, body);
  await gateway.json(["plugin", "install", folder.dir, "--yes"]);
  folder.remove();
}

test("which boundary is in force is said for this machine and for the gateway that runs", async () => {
  const rows = async (env: Record<string, string>) => {
    const { out } = await gateway.backplane(["doctor", "--json"], { env });
    const { checks } = JSON.parse(out) as Report;
    return ["sandbox", "boundary"].map((name) => checks.find((check) => check.name === name));
  };
  const [machine, running] = await rows({});
  expect(machine?.message).toMatch(
    /^isolated and worker exports run confined: bubblewrap .*system-call filter/,
  );
  expect(running).toMatchObject({
    status: "ok",
    message: expect.stringMatching(/^of the gateway that runs: /),
  });
  const [off, still] = await rows({ BACKPLANE_SANDBOX: "0" });
  expect(off).toMatchObject({
    status: "degraded",
    message: expect.stringMatching(/^switched off: isolated exports are refused/),
    fix: expect.stringContaining("unset BACKPLANE_SANDBOX"),
  });
  expect(still).toMatchObject({ status: "ok" });
});

verifies(
  "plug.health",
  "one row for each plugin: exit 0 while the worst is degraded, 1 once one has failed; --timeout is each plugin's own",
  async () => {
    await install("silent", "onLoad() {}");
    await install("hanging", "healthCheck() { return new Promise(() => {}); }");
    const degraded = await doctor("--timeout", "1");
    expect(degraded.exit).toBe(EXIT.ok);
    expect(degraded.report.status).toBe("degraded");
    expect(degraded.plugin("silent")).toMatchObject({ status: "ok", message: "no checks registered" });
    expect(degraded.plugin("hanging")).toMatchObject({ status: "degraded" });
    expect(degraded.plugin("llm-echo")).toMatchObject({ status: "ok" });

    await gateway.json(["plugin", "remove", "hanging", "--yes"]);
    await install("raising", 'healthCheck() { throw new Error("the disk is gone"); }');
    const failed = await doctor();
    expect(failed.exit).toBe(EXIT.failed);
    expect(failed.report.status).toBe("failed");
    expect(failed.plugin("raising")).toMatchObject({
      status: "failed",
      message: expect.stringContaining("the disk is gone"),
      fix: "backplane plugin info raising",
    });
    const { out } = await gateway.backplane(["doctor"]);
    expect(out).toMatch(/plugin raising +failed +.*\n {2}fix: backplane plugin info raising/);
  },
);
