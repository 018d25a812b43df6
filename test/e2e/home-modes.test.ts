/**
 * The modes and owners of all files in the home of a gateway that has used the features that write there: packages,
 * calls, files, secrets, instruments, kernel plugins, workspaces, sessions. The gateway starts with umask 000 on a
 * world-writable folder.
 */
import { spawnSync } from "node:child_process";
import {
  chmodSync,
  cpSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  type Stats,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import type { Invocation } from "@backplane/contract";
import { afterAll, beforeAll, expect, test } from "vitest";
import { cleanEnvironment, runCli, startTestGateway, type TestGateway } from "../support/gateway/gateway.ts";
import { installAndBind, vaiProgram, writePluginFolder } from "../support/plugins/plugin-folder.ts";
import { verifies } from "../support/verifies.ts";

const base = mkdtempSync(join(tmpdir(), "backplane-modes-"));
const home = join(base, "home");
const own_uid = process.getuid?.() ?? 0;
const is_root = own_uid === 0;

let gateway: TestGateway;
beforeAll(async () => {
  mkdirSync(home);
  chmodSync(home, 0o777);
  gateway = await startWithUmask(0o000);
  await useFeatures();
}, 240_000);
afterAll(async () => {
  await gateway.dispose();
  rmSync(base, { recursive: true, force: true });
});

/** The gateway inherits the umask; this process restores its own afterwards. */
async function startWithUmask(mask: number): Promise<TestGateway> {
  const previous_umask = process.umask(mask);
  try {
    return await startTestGateway({ home });
  } finally {
    process.umask(previous_umask);
  }
}

const FILES = `async ({ body }) => {
  const fs = await import("node:fs");
  fs.writeFileSync(body.context.scratch_dir + "/out.bin", "of the call");
  return { status: "succeeded", result: { content: [], structured_output: { transport: "artifact", path: "out.bin" } } };
}`;

const INSTRUMENT = `import { InstrumentResult } from "@backplane/sdk/instruments";
import { writeFileSync } from "node:fs";
export class Provider {
  initialize(context) { this.dir = context.dataDir; }
  instruments = [{
    name: "keep", riskLevel: "ReadOnly",
    metadata: { name: "keep", category: "Application", description: "Keeps a file." },
    invoke: async () => { writeFileSync(this.dir + "/kept", "of the instrument"); return InstrumentResult.data("kept"); },
  }];
}
`;

const KERNEL_PLUGIN = `import { writeFileSync } from "node:fs";
export const plugin = {
  name: "keeper", version: "1.0.0", category: "tool", subscriptions: () => [],
  onLoad: (ctx) => ctx.registerTool({
    name: "keep_state", description: "Writes a file.", parameters: { type: "object" }, effect_class: "read_only",
    async run() {
      writeFileSync(ctx.stateDir + "/kept", "of the plugin");
      return { ok: true, brief: "kept", display: { kind: "json", data: {} } };
    },
  }),
};
`;

async function useFeatures(): Promise<void> {
  const folder = writePluginFolder({
    package_id: "acme/files",
    entrypoint: ["node", "./bin/plugin.mjs"],
    files: { "bin/plugin.mjs": vaiProgram("acme/files", FILES), "bin/run.sh": "#!/bin/sh\n" },
    exports: [{ id: "files", extra: '[exports.permissions]\nfilesystem = "scratch"' }],
  });
  await installAndBind(gateway, folder, ["files"], { class: "isolated" });
  rmSync(folder, { recursive: true });
  await expectCallSucceeds("files");

  const instrument = join(base, "instrument");
  mkdirSync(join(instrument, "META-INF"), { recursive: true });
  const about = { id: "keeps", name: "keeps", version: "1.0.0", author: "us", description: "For a test." };
  const runtime = { providerClass: "./provider.mjs#Provider", isolationMode: "External" };
  writeFileSync(join(instrument, "META-INF/hefty-plugin.json"), JSON.stringify({ ...about, ...runtime }));
  writeFileSync(join(instrument, "provider.mjs"), INSTRUMENT);
  const running = await gateway.http("POST", "/v1/instrument-plugins", { path: instrument });
  expect(running.body, JSON.stringify(running.body)).toMatchObject({ state: "running" });
  await expectCallSucceeds("keep");

  const plugin = join(base, "keeper");
  mkdirSync(join(plugin, "lib"), { recursive: true });
  writeFileSync(join(plugin, "plugin.mjs"), KERNEL_PLUGIN);
  writeFileSync(join(plugin, "lib", "more.mjs"), "");
  chmodSync(join(plugin, "lib"), 0o700);
  chmodSync(join(plugin, "lib", "more.mjs"), 0o666);
  const entry = { keeper: { category: "tool", module: "./plugin.mjs" } };
  const manifest = { name: "keeper", version: "1.0.0", type: "module", "yaya.plugins.v1": entry };
  writeFileSync(join(plugin, "package.json"), JSON.stringify(manifest));
  await runCommand("plugin", "install", plugin, "--yes");
  await expectCallSucceeds("keep_state");

  const workspace = join(base, "workspace");
  cpSync(resolve("examples/text-tools"), workspace, { recursive: true });
  await runCommand("workspace", "trust", workspace, "--yes");
  await gateway.http("PUT", "/v1/secrets/mine", { value: "of the secret" });
  await runCommand("secret", "rotate-key");
  await runCommand("session", "chat", "-m", "hello");
}

async function runCommand(...args: string[]): Promise<void> {
  const { code, stderr } = await gateway.cli(...args);
  if (code !== 0) throw new Error(`${args.join(" ")}: ${stderr}`);
}

async function expectCallSucceeds(export_id: string): Promise<void> {
  const call = { export_id, input: {} };
  const { body } = await gateway.http<Invocation>("POST", "/v1/invocations?wait=60", call);
  expect(body, JSON.stringify(body)).toMatchObject({ status: "succeeded" });
}

type Owner = "gateway" | "plugin";
interface Rule {
  path: RegExp;
  folder?: string[];
  file?: string[];
  owner: Owner;
}

/** The first rule that matches a path below the home applies. Only files that a sandbox mounts are readable by others. */
const RULES: Rule[] = [
  { path: /^blobs\/sha256\/\w{64}\/tree(\/|$)/, folder: ["755"], file: ["444", "555"], owner: "gateway" },
  { path: /^blobs\/sha256\/\w{64}\/listing$/, file: ["400"], owner: "gateway" },
  { path: /^images\/\w+$/, folder: ["700"], owner: "gateway" },
  { path: /^images\/\w+\//, folder: ["755"], file: ["444", "555"], owner: "gateway" },
  { path: /^(sandbox|scratch\/own)\/own-\d+-\w+$/, folder: ["700"], owner: "gateway" },
  { path: /^(sandbox|scratch\/own)\/own-\d+-\w+\//, file: ["444", "555"], owner: "gateway" },
  { path: /^plugins\/local\/[^/]+(\/|$)/, folder: ["755"], file: ["644"], owner: "gateway" },
  {
    path: /^(scratch\/[^/]+|data\/plugins\/[^/]+\/[^/]+\/[^/]+|plugins\/state\/[^/]+)$/,
    folder: ["700"],
    owner: "plugin",
  },
  {
    path: /^(scratch\/[^/]+|data\/plugins\/[^/]+\/[^/]+\/[^/]+|plugins\/state\/[^/]+)\//,
    folder: ["700", "755"],
    file: ["600", "644"],
    owner: "plugin",
  },
  { path: /^/, folder: ["700"], file: ["600"], owner: "gateway" },
];

function walk(folder: string, path = ""): { path: string; info: Stats }[] {
  const info = lstatSync(join(folder, path), { throwIfNoEntry: false });
  // A call that has ended in the meantime has removed its scratch folder.
  if (info === undefined) return [];
  if (!info.isDirectory()) return [{ path, info }];
  const names = readdirSync(join(folder, path));
  return [{ path, info }, ...names.flatMap((name) => walk(folder, path === "" ? name : `${path}/${name}`))];
}

function listViolations(): string[] {
  const problems: string[] = [];
  for (const { path, info } of walk(home)) {
    if (info.isSymbolicLink()) continue;
    const rule = RULES.find((candidate) => candidate.path.test(path))!;
    const mode = (info.mode & 0o7777).toString(8);
    const allowed = info.isDirectory() ? rule.folder : rule.file;
    if (allowed?.includes(mode) !== true) problems.push(`${path || "."} is ${mode}`);
    // If the gateway runs as root, each plugin has its own user (58000 and up). Otherwise all files belong to one user.
    const has_right_owner =
      info.uid === own_uid || (rule.owner === "plugin" && is_root && info.uid >= 58_000 && info.uid < 60_000);
    if (!has_right_owner) problems.push(`${path || "."} belongs to ${info.uid}`);
  }
  return problems;
}

verifies("sec.home-modes", "a home has the documented modes and owners, even with umask 000", () => {
  expect(listViolations()).toEqual([]);
  const paths = walk(home).map(({ path }) => path);
  // These kinds of files existed, so their rules were checked.
  for (const kind of [
    /^store\.db$/,
    /^store\.db-wal$/,
    /^store\.db-shm$/,
    /^backplane\.lock$/,
    /^gateway\.json$/,
    /^admin\.token$/,
    /^secret\.key$/,
    /^workspaces\.json$/,
    /^blobs\/artifacts\/\w{64}$/,
    /^blobs\/sha256\/\w{64}\/tree\/bin\/run\.sh$/,
    /^sandbox\/own-\d+-\w+\/sandbox-init$/,
    /^images\/\w+\/.*\/run\.sh$/,
    /^data\/plugins\/[^/]+\/[^/]+\/[^/]+\/kept$/,
    /^plugins\/local\/[^/]+\/lib\/more\.mjs$/,
    /^plugins\/local\.json$/,
    /^plugins\/state\/keeper\/kept$/,
  ])
    expect(
      paths.some((path) => kind.test(path)),
      String(kind),
    ).toBe(true);
});

test.runIf(is_root)("another user cannot reach any file of a home by its path", () => {
  const nobody = { uid: 65_534, gid: 65_534, encoding: "utf8" as const };
  // The parent folder is open, so that only the home's own modes prevent access.
  chmodSync(base, 0o755);
  const files = walk(home).filter(({ info }) => info.isFile());
  expect(files.length).toBeGreaterThan(20);
  const script = 'for file; do test -e "$file" && echo "$file"; done; ls "$0"; exit 0';
  const listing = spawnSync("sh", ["-c", script, home, ...files.map(({ path }) => join(home, path))], nobody);
  expect(listing.stdout).toBe("");
  expect(listing.stderr).toContain("Permission denied");
  chmodSync(base, 0o700);
});

verifies(
  "sec.home-modes",
  "doctor reports a home that is open to other users, and the next start repairs its modes",
  async () => {
    await gateway.stop();
    const opened = ["", "store.db", "blobs", "blobs/sha256", "blobs/artifacts", "workspaces.json", "plugins"];
    for (const path of opened) chmodSync(join(home, path), 0o777);
    const doctor = await gateway.cli("doctor", "--json");
    const { checks } = JSON.parse(doctor.stdout) as {
      checks: { name: string; status: string; fix?: string }[];
    };
    expect(checks.find(({ name }) => name === "home")).toMatchObject({
      status: "failed",
      fix: expect.stringContaining(`chmod 0700 ${home} && `),
    });
    expect(doctor.code).toBe(1);

    gateway = await startWithUmask(0o000);
    // The images of watched folders are made after the start. Until one is complete, only the gateway can open it.
    await expect.poll(listViolations).toEqual([]);
    await expectCallSucceeds("files");
    const again = JSON.parse((await gateway.cli("doctor", "--json")).stdout) as typeof checks & {
      checks: typeof checks;
    };
    expect(again.checks.find(({ name }) => name === "home")).toMatchObject({ status: "ok" });
  },
  120_000,
);

test("makes the log of a background start private, and writes no log into a refused home", async () => {
  const other = join(base, "other");
  mkdirSync(other);
  const link = join(base, "link");
  symlinkSync(other, link);
  const env = (dir: string) => cleanEnvironment({ BACKPLANE_HOME: dir });
  const refused = await runCli(["up", "--detach", "--port", "0"], env(link));
  expect(refused.stderr).toContain("error[home.unsafe]");
  expect(refused.stderr).toContain(`The home ${link} is a symbolic link to ${other}.`);
  expect(refused.stderr).toContain(`fix: Set BACKPLANE_HOME to ${other} itself.`);
  expect(readdirSync(other)).toEqual([]);

  writeFileSync(join(other, "gateway.log"), "");
  chmodSync(join(other, "gateway.log"), 0o666);
  const previous_umask = process.umask(0o000);
  const up = await runCli(["up", "--detach", "--port", "0"], env(other)).finally(() =>
    process.umask(previous_umask),
  );
  expect(up.code, up.stderr).toBe(0);
  try {
    const modes = walk(other).map(({ path, info }) => [path, (info.mode & 0o077).toString(8)]);
    expect(modes.filter(([path, open]) => open !== "0" && !path!.startsWith("sandbox/"))).toEqual([]);
  } finally {
    expect((await runCli(["down"], env(other))).code).toBe(0);
  }
}, 60_000);
