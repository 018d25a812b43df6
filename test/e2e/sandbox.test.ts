/** The boundary of each class as the plugin sees it, with the sandbox enabled and disabled. */
import { realpathSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { startTestGateway, type TestGateway } from "../support/gateway/gateway.ts";
import { installAndBind, vaiProgram, writePluginFolder } from "../support/plugins/plugin-folder.ts";

let sandboxed: TestGateway;
let unconfined: TestGateway;
beforeAll(async () => {
  sandboxed = await startTestGateway();
  unconfined = await startTestGateway({ env: { BACKPLANE_SANDBOX: "false" } });
});
afterAll(async () => {
  await sandboxed.dispose();
  await unconfined.dispose();
});

/** Reports which host files and processes it sees and how Linux confines it; `calls` counts calls to its process. */
const INSPECTOR = `(() => {
  let calls = 0;
  return async (call) => {
    const { existsSync, readdirSync, readFileSync } = await import("node:fs");
    const status = readFileSync("/proc/self/status", "utf8");
    const field = (name) => new RegExp("^" + name + ":\\\\s*(.*)$", "m").exec(status)[1];
    const report = {
      calls: ++calls,
      reads: call.body.input.paths.filter((path) => existsSync(path)),
      node: process.version,
      seccomp: field("Seccomp"),
      capabilities: field("CapEff"),
      processes: readdirSync("/proc").filter((name) => /^\\\\d+$/.test(name)).length,
    };
    return { status: "succeeded", result: { content: [{ type: "text", text: JSON.stringify(report) }] } };
  };
})()`;

interface ProbeResult {
  calls: number;
  reads: string[];
  node: string;
  seccomp: string;
  capabilities: string;
  processes: number;
}

async function bindInspector(gateway: TestGateway, name: string) {
  const folder = writePluginFolder({
    package_id: `acme/inspector-${name}`,
    entrypoint: ["node", "./bin/plugin.mjs"],
    files: { "bin/plugin.mjs": vaiProgram(`acme/inspector-${name}`, INSPECTOR) },
    exports: [{ id: `inspect_${name}` }],
  });
  await installAndBind(gateway, folder, [`inspect_${name}`], { class: name });
  const paths = [join(gateway.home, "admin.token"), "/etc/hostname", realpathSync("package.json")];
  return async (): Promise<ProbeResult> => {
    const call = { export_id: `inspect_${name}`, input: { paths } };
    const { body } = await gateway.http<{ status: string; result: { content: [{ text: string }] } }>(
      "POST",
      "/v1/invocations?wait=30",
      call,
    );
    expect(body, JSON.stringify(body)).toMatchObject({ status: "succeeded" });
    return JSON.parse(body.result.content[0].text) as ProbeResult;
  };
}

test("confines isolated and worker processes alike, uses an isolated process for one call and a worker for several", async () => {
  for (const [name, calls] of [
    ["isolated", [1, 1]],
    ["worker", [1, 2]],
  ] as const) {
    const inspect = await bindInspector(sandboxed, name);
    const inspected = [await inspect(), await inspect()];
    expect(inspected.map((record) => record.calls)).toEqual(calls);
    for (const record of inspected) {
      expect(record).toMatchObject({ reads: [], seccomp: "2", capabilities: "0000000000000000" });
      expect(record.node).toBe(process.version);
      expect(record.processes).toBeLessThanOrEqual(3);
    }
  }
});

test("runs a worker as a plain process when the sandbox is disabled", async () => {
  const inspect = await bindInspector(unconfined, "worker");
  expect((await inspect()).reads).toEqual([
    join(unconfined.home, "admin.token"),
    "/etc/hostname",
    realpathSync("package.json"),
  ]);
});
