/** Instrument plugins in the plugins folder, and those that an admin's agent installs with its tools. */
import { readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Approval, Invocation } from "@backplane/contract";
import { expect } from "vitest";
import { zip } from "../../packages/supply/test/support/zip-bytes.ts";
import {
  client,
  gateway,
  invoke,
  list,
  restart,
  unload,
  until,
  useInstrumentGateway,
  writePlugin,
} from "../support/plugins/instrument-gateway.ts";
import { verifies } from "../support/verifies.ts";

useInstrumentGateway();

/** A provider that logs its lifecycle. */
function providerWithLog(id: string): string {
  return `
    import { appendFileSync } from "node:fs";
    import { join } from "node:path";
    const name = ${JSON.stringify(id.replaceAll("-", "_"))};
    export class Provider {
      initialize({ dataDir }) {
        this.note = (line) => appendFileSync(join(dataDir, "life"), line + "\\n");
        this.note("initialize");
      }
      instruments = [{ name, riskLevel: "ReadOnly", metadata: { name, category: "Shell", description: "x" }, invoke() {} }];
      shutdown() {
        this.note("shutdown");
      }
    }`;
}

verifies(
  "instr.lifecycle",
  "discovers plugins in the plugins folder, loads them in order, skips those whose dependency is missing or cyclic, and logs every step",
  async () => {
    const { home } = gateway;
    await gateway.stop();
    for (const [id, dependencies, more] of [
      ["a-child", ["z-parent"], {}],
      ["b-orphan", ["nobody"], {}],
      ["c-too-new", [], { minHeftyVersion: "99.0.0" }],
      ["d-elsewhere", [], { platforms: ["Windows"] }],
      ["x-cycle", ["y-cycle"], {}],
      ["y-cycle", ["x-cycle"], {}],
      ["z-parent", [], {}],
    ] as const) {
      const folder = writePlugin(
        id,
        { isolationMode: "External", dependencies, ...more },
        providerWithLog(id),
      );
      const files = ["META-INF/hefty-plugin.json", "provider.mjs"];
      const bytes = zip(files.map((name) => ({ name, body: readFileSync(join(folder, name)) })));
      writeFileSync(join(home, "plugins", `${id}.zip`), bytes);
    }
    await restart();
    const listStates = async () =>
      Object.fromEntries(
        (await list()).map(({ error, plugin_id, state }) => [plugin_id, error?.message ?? state]),
      );
    await until(() => gateway.log().includes('"plugin":"y-cycle","version"'));
    expect(await listStates()).toMatchObject({
      "a-child": "running",
      "b-orphan": "b-orphan is skipped: its dependency nobody is not installed and bound.",
      "x-cycle": "x-cycle is skipped: its dependencies form a cycle: x-cycle → y-cycle → x-cycle.",
      "z-parent": "running",
    });
    const log = gateway.log();
    expect(log).toContain("needs Hefty 99.0.0, and this host is compatible with 0.22.0");
    for (const pattern of [
      /"plugin":"z-parent".*discovered an instrument plugin/,
      /"plugin":"a-child".*"state":"running".*discovered an instrument plugin/,
      /"plugin":"a-child".*instrument plugin loaded/,
      /"level":50.*"plugin":"b-orphan".*dependency nobody is not installed.*discovered an instrument plugin with an error/,
      /"level":50.*"plugin":"x-cycle".*x-cycle → y-cycle → x-cycle.*discovered an instrument plugin with an error/,
      /"plugin":"a-child".*lists no sideEffects.*instrument plugin has a warning/,
      /d-elsewhere\.zip.*package\.platform/,
    ]) {
      expect(
        log.split("\n").some((line) => pattern.test(line)),
        String(pattern),
      ).toBe(true);
    }
    // a-child is installed after its dependency, although its file comes first by name.
    expect(log).not.toContain("a-child is skipped");
    const parent = (await list()).find(({ plugin_id }) => plugin_id === "z-parent")!;
    expect(parent.warnings).toEqual([expect.stringContaining("lists no sideEffects")]);
    await unload("z-parent");
    expect((await listStates())["a-child"]).toContain("its dependency z-parent is not installed and bound");
    const life = join(home, "data/plugins/z-parent/org_local/proj_default/life");
    await until(() => readFileSync(life, "utf8") === "initialize\nshutdown\n");
    for (const id of ["a-child", "b-orphan", "x-cycle", "y-cycle"]) await unload(id);
    for (const name of readdirSync(join(home, "plugins"))) {
      if (name.endsWith(".zip")) rmSync(join(home, "plugins", name));
    }
  },
  120_000,
);

verifies(
  "instr.admin",
  "lets an admin's agent list, install and unload plugins, each with an approval, and refuses the key of a user",
  async () => {
    const source = `export const Provider = { initialize() {}, instruments: [{ name: "late_comer", riskLevel: "ReadOnly",
    metadata: { name: "late_comer", category: "Application", description: "Came late." },
    invoke: () => ({ status: "Success", data: "here" }) }] };`;
    const path = writePlugin("late", { isolationMode: "External" }, source);
    const requestTool = async (text: string) => {
      const { body: run } = await gateway.http<{ id: string; status: string }>("POST", "/v1/runs", {
        session_id: "admin-talk",
        input: { text },
      });
      let approval: Approval | undefined;
      for (;;) {
        const now = await client.runs.get(run.id);
        if (now.status !== "running") break;
        const { items } = await client.approvals.list({ status: "pending" });
        if (items[0] !== undefined && approval === undefined) {
          approval = items[0];
          await client.approvals.answer(approval.id, { response: "approve" });
        }
        await new Promise((done) => setTimeout(done, 50));
      }
      return approval;
    };
    expect(await requestTool(`/tool plugin_install ${JSON.stringify({ path })}`)).toMatchObject({
      risk: "high",
    });
    expect((await list()).find(({ plugin_id }) => plugin_id === "late")).toMatchObject({ state: "running" });
    expect(await invoke("late_comer", {})).toMatchObject({ status: "succeeded" });
    expect(await requestTool("/tool plugins_list {}")).toMatchObject({ risk: "high" });
    const calls = await gateway.http<{ items: Invocation[] }>(
      "GET",
      "/v1/invocations?export_id=plugins_list",
    );
    expect(JSON.stringify(calls.body.items[0]?.result)).toContain("late_comer");
    expect(await requestTool('/tool plugin_unload {"plugin_id":"late"}')).toMatchObject({ risk: "high" });
    expect((await list()).some(({ plugin_id }) => plugin_id === "late")).toBe(false);
    expect(
      (await gateway.http("POST", "/v1/invocations", { export_id: "late_comer", input: {} })).status,
    ).toBe(404);

    const key = await gateway.http<{ token: string }>("POST", "/v1/keys", {
      name: "a user",
      role: "user",
      scopes: ["invocations:write", "packages:write", "bindings:write"],
    });
    const user_headers = { authorization: `Bearer ${key.body.token}` };
    for (const [method, at, body] of [
      ["GET", "/v1/instrument-plugins", undefined],
      ["POST", "/v1/instrument-plugins", { path }],
      ["DELETE", "/v1/instrument-plugins/java-text", undefined],
    ] as const) {
      expect((await gateway.http(method, at, body, user_headers)).status).toBe(403);
    }
  },
);
