/** Plugin health, sandbox and installed files in the table and exit code of doctor. */
import { chmodSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { verifies } from "../../../../../test/support/verifies.ts";
import { EXIT } from "../../../src/index.ts";
import { PLUGIN, startTestGateway, type TestGateway } from "../../support/gateway.ts";
import { createKernelPluginFolder } from "../../support/kernel-plugin.ts";

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
  const folder = createKernelPluginFolder(name, body);
  await gateway.json(["plugin", "install", folder.dir, "--yes"]);
  folder.remove();
}

test("reports the sandbox of this machine and of the running gateway", async () => {
  const readRows = async (env: Record<string, string>) => {
    const { out } = await gateway.backplane(["doctor", "--json"], { env });
    const { checks } = JSON.parse(out) as Report;
    return ["sandbox", "boundary"].map((name) => checks.find((check) => check.name === name));
  };
  const [machine, running] = await readRows({});
  expect(machine?.message).toMatch(
    /^isolated and worker exports run confined: embedded sandbox-init .*system-call filter/,
  );
  expect(running).toMatchObject({
    status: "ok",
    message: expect.stringMatching(/^reported by the running gateway: /),
  });
  const [disabled, unchanged] = await readRows({ BACKPLANE_SANDBOX: "0" });
  expect(disabled).toMatchObject({
    status: "degraded",
    message: expect.stringMatching(/^turned off: isolated exports are refused/),
    fix: expect.stringContaining("unset BACKPLANE_SANDBOX"),
  });
  expect(unchanged).toMatchObject({ status: "ok" });
});

verifies(
  "plug.health",
  "prints one row for each plugin, applies --timeout to each, and exits with 1 only if one has failed",
  async () => {
    await install("silent", "onLoad() {}");
    await install("hanging", "healthCheck() { return new Promise(() => {}); }");
    // Enough for the healthy plugins on a busy machine.
    const degraded = await doctor("--timeout", "5");
    expect(degraded.exit).toBe(EXIT.ok);
    expect(degraded.report.status).toBe("degraded");
    expect(degraded.plugin("silent")).toMatchObject({ status: "ok", message: "no checks registered" });
    expect(degraded.plugin("hanging")).toMatchObject({ status: "degraded" });
    expect(degraded.plugin("llm-echo")).toMatchObject({ status: "ok" });

    await gateway.json(["plugin", "remove", "hanging", "--yes"]);
    await install("raising", 'healthCheck() { throw new Error("the disk is gone"); }');
    const report =
      '{ status: "degraded", summary: "half", details: [{ name: "mirror", status: "failed", message: "no route", config_key: "plugin.partly.mirror" }] }';
    await install("partly", `healthCheck() { return ${report}; }`);
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
    expect(failed.plugin("partly")).toMatchObject({
      status: "degraded",
      details: [{ name: "mirror", status: "failed", message: "no route" }],
      fix: "backplane config set plugin.partly.mirror VALUE",
    });
    expect(out).toMatch(/plugin partly +degraded +half\n {2}mirror: failed no route\n {2}fix: /);
  },
);

test("suggests the commands that set the missing keys of providers", async () => {
  const set_key_command = "backplane config set providers.llm-anthropic.api_key < file";
  expect((await doctor()).plugin("llm-anthropic")).toMatchObject({ status: "ok", message: "not set up" });
  await gateway.json(["provider", "use", "llm-anthropic"]);
  expect((await doctor()).plugin("llm-anthropic")).toMatchObject({
    status: "degraded",
    message: "llm-anthropic: no api_key: set providers.llm-anthropic.api_key",
    fix: set_key_command,
  });
  await gateway.json(["provider", "add", "llm-anthropic", "--id", "claude", "--set", "model=claude-test"]);
  expect((await doctor()).plugin("llm-anthropic")?.fix).toBe(
    `backplane config set providers.claude.api_key < file && ${set_key_command}`,
  );
});

verifies(
  "integrity.exec",
  "reports a damaged content store with the package, the file, both digests and the command that repairs it",
  async () => {
    const readRows = async (...argv: string[]) => {
      const { exit, report } = await doctor(...argv);
      return { exit, store_checks: report.checks.filter(({ name }) => name === "content store") };
    };
    await gateway.json(["plugin", "install", PLUGIN, "--no-bind"]);
    const intact = await readRows();
    expect(intact.store_checks).toEqual([
      { name: "content store", status: "ok", message: "all installed packages match their digests (1)" },
    ]);

    const store = join(gateway.home, "blobs/sha256");
    const [hex] = readdirSync(store) as [string];
    const file = join(store, hex, "tree/vai-plugin.toml");
    const text = readFileSync(file, "utf8");
    chmodSync(file, 0o644);
    writeFileSync(file, text.replace("a", "b"));
    const { exit, store_checks } = await readRows();
    expect(exit).toBe(EXIT.failed);
    expect(store_checks).toHaveLength(1);
    expect(store_checks[0]).toMatchObject({ status: "failed" });
    expect(store_checks[0]!.message).toMatch(
      new RegExp(
        `^acme/cli-kit@0.1.0 \\(sha256:${hex}\\) is damaged and will not be started: "vai-plugin.toml" was changed: expected 0644 sha256:[0-9a-f]{64}, found 0644 sha256:[0-9a-f]{64}$`,
      ),
    );
    expect(store_checks[0]!.fix).toMatch(/^backplane plugin install SOURCE --no-bind/);

    // Installing the package again repairs its files.
    await gateway.json(["plugin", "install", PLUGIN, "--no-bind"]);
    expect((await readRows()).store_checks).toMatchObject([{ status: "ok" }]);

    rmSync(join(store, hex, "listing"), { force: true });
    expect((await readRows()).store_checks[0]!.message).toContain('"listing" is missing');
  },
);
