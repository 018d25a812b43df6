import type { Binding, Installation, Package } from "@backplane/contract";
import { expect, test } from "vitest";
import type { CommandContext } from "../../src/context/context.ts";
import { reportInstallation } from "../../src/install/report-installation.ts";

/** Reports the reinstallation of a server that is bound with the argument /data, and returns the printed notes. */
async function reportReinstall(args: readonly string[]): Promise<string> {
  const notes: string[] = [];
  const out = { note: (text: string) => notes.push(text), data: () => {}, quiet: true, json: false };
  const identity = { package_id: "npm/files", version: "1.0.0", digest: "sha256:0" };
  const installed = { ...identity, manifest: { runtime: { protocol: "mcp.stdio" } } } as unknown as Package;
  const binding = {
    binding_id: "bind_1",
    package_id: "npm/files",
    export_id: "*",
    config: { args: ["/data"] },
    unbound_slots: [],
    policy: {},
  } as unknown as Binding;
  const installation: Installation = {
    kind: "mcp_servers",
    packages: [{ package: installed, created: false }],
    bindings: [{ binding, change: "unchanged" }],
    left_out: [],
    notes: [],
  };
  await reportInstallation({ out } as unknown as CommandContext, installation, args);
  return notes.join("\n");
}

test("prints the command that applies other arguments to a server that is already bound", async () => {
  const printed = await reportReinstall(["/other", "it's here"]);
  expect(printed).toContain("The new arguments were not applied");
  expect(printed).toContain("backplane binding set bind_1 -- /other 'it'\\''s here'");
});

test("reports unchanged settings when the arguments are the same", async () => {
  expect(await reportReinstall(["/data"])).toContain("its settings were not changed");
});
