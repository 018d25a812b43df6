/** The permissions and changes that an operator reads before an installation, and after it. */
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Binding, Package } from "@backplane/contract";
import { afterAll, beforeAll, expect, onTestFinished, test } from "vitest";
import { EXIT } from "../../src/index.ts";
import { PLUGIN, startTestGateway, type TestGateway } from "../support/gateway.ts";
import { createKernelPluginFolder } from "../support/kernel-plugin.ts";

let gateway: TestGateway;
const root = mkdtempSync(join(tmpdir(), "backplane-dry-run-"));
beforeAll(async () => {
  gateway = await startTestGateway();
});
afterAll(async () => {
  await gateway.close();
  rmSync(root, { recursive: true, force: true });
});

/** Version 0.2.0 of the plugin, in which `slow` also needs the network. */
function writeNextVersion(): string {
  const folder = join(root, "next");
  cpSync(PLUGIN, folder, { recursive: true });
  for (const name of ["vai-plugin.toml", "plugin.mjs"]) {
    const text = readFileSync(join(folder, name), "utf8")
      .replace(/\bversion( =|:) "0\.1\.0"/, `version$1 "0.2.0"`)
      .replace(
        'id = "slow"\nkind = "tool"\n',
        '$&[exports.permissions]\nnetwork = "egress"\nallowed_domains = ["api.acme.test"]\n',
      );
    writeFileSync(join(folder, name), text);
  }
  return folder;
}

const install = (...argv: string[]) => gateway.backplane(["plugin", "install", ...argv]);
async function listStored() {
  const { items: packages } = await gateway.json<{ items: Package[] }>(["plugin", "list"]);
  const { items: bindings } = await gateway.json<{ items: Binding[] }>(["binding", "list"]);
  return {
    packages: packages.map(({ version }) => version),
    bindings: bindings.map(({ export_id, package_version }) => `${export_id} ${package_version}`).sort(),
  };
}

const NO_NETWORK = `  It cannot use the network.
  It cannot read or write files.
`;

test("shows in sentences what a package may do and what changes, before and after it is installed", async () => {
  const first = await install(PLUGIN, "--dry-run", "--bind");
  expect(first).toMatchObject({ exit: EXIT.ok, err: "Nothing was installed.\n" });
  expect(first.out).toMatch(/^Would install acme\/cli-kit@0\.1\.0 \(sha256:\w+\)\n/);
  expect(first.out).toContain("\n  signature: unsigned\n");
  expect(first.out).toContain(
    "\n  exports: echo (tool), slow (tool), broken (tool), guarded (tool), secretive (tool)\n",
  );
  expect(first.out).toContain(
    `What echo, slow, broken and guarded may do:\n${NO_NETWORK}  It receives no secrets.\n`,
  );
  expect(first.out).toContain(
    `What secretive may do:\n${NO_NETWORK}  It receives the secrets that you bind to token.\n`,
  );
  expect(first.out).toContain("\nWould bind echo (active)\n");
  expect(first.out).toMatch(/\nWould bind secretive \(inactive, needs the secret token\)\n$/);
  expect(await listStored()).toEqual({ packages: [], bindings: [] });

  const unbound = await install(PLUGIN, "--dry-run");
  expect(unbound.out).toMatch(/\nWould bind nothing\. To bind the exports, add --bind\.\n$/);

  const installed = await install(PLUGIN, "--bind");
  expect(installed.err).toContain(`What secretive may do:\n${NO_NETWORK}`);
  expect(installed.out).not.toContain("may do");
  // Nothing changed, so nothing has to be read again.
  expect((await install(PLUGIN)).err).not.toContain("may do");

  const before = await listStored();
  const next = writeNextVersion();
  const CHANGES = "acme/cli-kit 0.1.0 → 0.2.0\n  slow will be able to use the network: api.acme.test.\n";
  const preview = await install(next, "--dry-run", "--bind");
  expect(preview.out).toContain(CHANGES);
  expect(preview.out).toMatch(/\nWould move slow from 0\.1\.0 to 0\.2\.0 \(active\)\n/);
  expect(preview.out).toContain("  It also requests network, which would not be granted.\n");
  const { packages } = await gateway.json<{ packages: object[] }>([
    "plugin",
    "install",
    next,
    "--dry-run",
    "--bind",
  ]);
  expect(packages).toMatchObject([
    {
      package: { version: "0.2.0" },
      created: true,
      abilities: expect.arrayContaining([
        {
          exports: ["slow"],
          sentences: [
            "It can connect to api.acme.test.",
            "It cannot read or write files.",
            "It receives no secrets.",
          ],
        },
      ]),
      changes: [
        {
          from: "0.1.0",
          text: "slow will be able to use the network: api.acme.test.",
          riskier: true,
        },
      ],
      bindings: Array.from({ length: 5 }, () => ({
        change: "moved",
        binding: { previous: { package_version: "0.1.0" } },
      })),
    },
  ]);
  expect(await listStored()).toEqual(before);

  // The package is installed without its bindings, which keep the version in use.
  const stored = await install(next);
  expect(stored.err).toContain(`What slow may do:\n  It can connect to api.acme.test.\n`);
  expect(stored.err).toContain(CHANGES);
});

test("compares an installed version with the version that its bindings leave", async () => {
  const next = join(root, "third");
  cpSync(PLUGIN, next, { recursive: true });
  for (const name of ["vai-plugin.toml", "plugin.mjs"]) {
    const text = readFileSync(join(next, name), "utf8");
    writeFileSync(join(next, name), text.replace(/\bversion( =|:) "0\.1\.0"/, `version$1 "0.3.0"`));
  }
  const moved = await install(next, "--bind");
  expect(moved.err).toMatch(/acme\/cli-kit 0\.1\.0 → 0\.3\.0\n {2}no change to exports/);
  expect(moved.err).not.toContain("0.2.0 → 0.3.0");
});

test("`plugin info` says in sentences what each export may do", async () => {
  const info = await gateway.backplane(["plugin", "info", "acme/cli-kit@0.3.0"]);
  expect(info.out).toContain(
    `\n\nWhat echo, slow, broken and guarded may do:\n${NO_NETWORK}  It receives no secrets.\nWhat secretive may do:\n`,
  );
});

test("shows the servers of an mcp.json, those that cannot be used, and installs nothing", async () => {
  const file = join(root, "mcp.json");
  const mcpServers = { far: { url: "https://far.invalid/mcp" }, own: { command: "/opt/own/server" } };
  writeFileSync(file, JSON.stringify({ mcpServers }));
  const before = await listStored();
  const { exit, out, err } = await install(file, "--dry-run");
  expect(exit).toBe(EXIT.partial);
  expect(out).toContain("\n  exports: its tools, which are known only when it runs\n");
  expect(out).toContain("What mcp/far may do:\n  It can connect to far.invalid:443.\n");
  expect(out).toMatch(/\nWould bind mcp\/far \(active\)\n$/);
  expect(err).toContain("Skipped server own");
  expect(await listStored()).toEqual(before);
});

test("shows kernel plugins without a confirmation", async () => {
  const greeter = createKernelPluginFolder("greeter", "");
  onTestFinished(() => greeter.remove());
  const { exit, out, err } = await install(greeter.dir, "--dry-run");
  expect({ exit, err }).toEqual({ exit: EXIT.ok, err: "Nothing was installed.\n" });
  expect(out).toMatch(/^Would install the kernel plugin greeter \S+ \(\w+\) from /);
  expect(out).toContain(
    "  It becomes part of the agent host and sees the conversations in which it is used.",
  );
  expect((await gateway.backplane(["plugin", "info", "greeter"])).exit).not.toBe(EXIT.ok);
});

test("refuses --dry-run with --editable, and with flags that run code of the package", async () => {
  for (const argv of [
    [PLUGIN, "--editable"],
    ["npm:acme-server", "--allow-scripts", "sqlite3"],
    ["pypi:acme-server", "--allow-build", "parser"],
  ]) {
    const refused = await install(...argv, "--dry-run");
    expect(refused.exit).toBe(EXIT.usage);
    expect(refused.err).toContain(argv[1]);
  }
});
