/** `plugin dev` against a real gateway: saves, errors, frames, secrets, stray output and Ctrl-C. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Binding, WorkspaceActivity, WorkspaceFolder } from "@backplane/contract";
import { afterAll, beforeAll, expect, onTestFinished, test } from "vitest";
import { verifies } from "../../../../../test/support/verifies.ts";
import { createPluginFolder } from "../../../../authoring/test/conformance/plugin-folder.ts";
import { runProgram } from "../../../src/index.ts";
import { captureIo } from "../../support/capture-io.ts";
import { startTestGateway, type TestGateway } from "../../support/gateway.ts";

const SECRET = "sk-live-3f9a1c7e5b2d";

let gateway: TestGateway;

beforeAll(async () => {
  gateway = await startTestGateway();
  await gateway.json(["secret", "set", "dev_key"], { stdin: SECRET });
});

afterAll(() => gateway?.close());

interface DevSession {
  activities(): WorkspaceActivity[];
  /** Waits for an activity of this type that contains `text`; ignores the first `from` activities. */
  next(type: WorkspaceActivity["type"], from: number, text?: string): Promise<WorkspaceActivity>;
  /** Sends Ctrl-C and resolves to the exit code. */
  interrupt(): Promise<number>;
}

/** Starts `plugin dev` and waits until it observes the folder. */
async function startDev(folder: string): Promise<DevSession> {
  const { io, ended } = gateway.begin(["plugin", "dev", folder, "--json"]);
  const activities = () =>
    io
      .out()
      .split("\n")
      .filter((line) => line !== "")
      .map((line) => JSON.parse(line) as WorkspaceActivity);
  const find = (type: string, from: number, text: string) =>
    activities()
      .slice(from)
      .find((each) => each.type === type && JSON.stringify(each).includes(text));
  const session: DevSession = {
    activities,
    async next(type, from, text = "") {
      await expect.poll(() => find(type, from, text), { message: `${type} ${text}` }).toBeDefined();
      return find(type, from, text)!;
    },
    async interrupt() {
      io.signal("SIGINT");
      return (await ended).exit;
    },
  };
  await session.next("loaded", 0);
  return session;
}

const invokeCount = (text: string) =>
  gateway.backplane(["invoke", "count", "--input", JSON.stringify({ text }), "--json"]);

async function bindSecret(): Promise<void> {
  const { items } = await gateway.json<{ items: Binding[] }>(["binding", "list"]);
  const bound = items.find(({ package_id }) => package_id === "acme/count")!;
  await gateway.json(["binding", "set", bound.binding_id, "--secret", "api_key=dev_key"]);
}

function editFile(folder: string, file: string, from: string, to: string): void {
  const path = join(folder, file);
  const text = readFileSync(path, "utf8");
  expect(text).toContain(from);
  writeFileSync(path, text.replace(from, to));
}

verifies(
  "author.dev",
  "loads each save, keeps the last version that starts, and shows frames, stray output and no secret",
  async () => {
    const folder = createPluginFolder("plugin.py", "", { timeout_ms: 60_000 });
    const dev = await startDev(folder);
    await bindSecret();

    expect(JSON.parse((await invokeCount("one two")).out).result.structured_output).toEqual({ words: 2 });
    await dev.next("frame", 0, "succeeded");
    const frames = dev
      .activities()
      .flatMap((each) =>
        each.type === "frame" ? [`${each.from} ${(JSON.parse(each.text) as { type: string }).type}`] : [],
      );
    expect(frames).toEqual(
      expect.arrayContaining([
        "host hello",
        "plugin hello",
        "host request",
        "plugin event",
        "plugin response",
      ]),
    );
    expect(JSON.stringify(dev.activities())).toContain("[redacted]");

    let position = dev.activities().length;
    editFile(folder, "bin/plugin.py", 'words = len(value.get("text", "").split())', "words = 40 + 2");
    await dev.next("loaded", position);
    // One save is one load, however often the editor writes the file.
    expect(
      dev
        .activities()
        .slice(position)
        .filter(({ type }) => type === "loaded"),
    ).toHaveLength(1);
    expect((await invokeCount("one")).out).toContain('"words":42');

    position = dev.activities().length;
    editFile(folder, "bin/plugin.py", "words = 40 + 2", "words = = 43");
    const failed = await dev.next("failed", position, "SyntaxError");
    expect(failed).toMatchObject({ message: expect.stringContaining("stays in use") });
    expect((await invokeCount("one")).out).toContain('"words":42');

    position = dev.activities().length;
    editFile(folder, "bin/plugin.py", "words = = 43", "words = 43");
    editFile(folder, "vai-plugin.toml", 'DEFECT = ""', 'DEFECT = "prints"');
    await dev.next("loaded", position);
    expect((await invokeCount("one")).exit).not.toBe(0);
    await dev.next("stray_output", position, "counting words");

    position = dev.activities().length;
    editFile(folder, "vai-plugin.toml", 'DEFECT = "prints"', 'DEFECT = "logs-secret"');
    await dev.next("loaded", position);
    expect((await invokeCount("one")).out).toContain('"words":43');
    await dev.next("stderr", position, "using [redacted]");

    expect(JSON.stringify(dev.activities())).not.toContain(SECRET);
    expect(await dev.interrupt()).toBe(130);
    expect(await gateway.json<{ items: WorkspaceFolder[] }>(["workspace", "list"])).toMatchObject({
      items: [],
    });
    const { items } = await gateway.json<{ items: { package_id: string }[] }>(["plugin", "list"]);
    expect(items.filter(({ package_id }) => package_id === "acme/count")).toEqual([]);
  },
);

test("keeps a folder linked that was already linked", async () => {
  const folder = createPluginFolder("plugin.py", "", { timeout_ms: 60_000 });
  await gateway.json(["plugin", "install", folder, "--editable"]);
  onTestFinished(async () => void (await gateway.backplane(["workspace", "untrust", folder, "--yes"])));
  const dev = await startDev(folder);
  expect(await dev.interrupt()).toBe(130);
  const { items } = await gateway.json<{ items: WorkspaceFolder[] }>(["workspace", "list"]);
  expect(items.map(({ path }) => path)).toEqual([folder]);
});

test("prints one readable line for each load and frame", async () => {
  const folder = createPluginFolder("plugin.py", "", { timeout_ms: 60_000 });
  const { io, ended } = gateway.begin(["plugin", "dev", folder]);
  await expect.poll(() => io.out()).toMatch(/\d\d:\d\d:\d\d\.\d{3} loaded 0\.1\.0\+edit/);
  expect(io.err()).toContain(`Watching ${folder} as acme/count.`);
  await bindSecret();
  await invokeCount("one two");
  await expect.poll(() => io.out()).toContain("succeeded");
  expect(io.out()).toMatch(/→ request \S+ tool\.invoke count \{"text":"one two"\}/);
  expect(io.out()).toMatch(/← event \S+ \{"type":"progress","message":"počítám"\}/);
  expect(io.out()).toMatch(/← response \S+ succeeded \{/);
  io.signal("SIGINT");
  expect((await ended).exit).toBe(130);
  expect(io.err()).toContain(`Unlinked ${folder}.`);
  expect(io.err()).not.toContain("error[");
});

test("explains how to start a gateway if none is running", async () => {
  const home = mkdtempSync(join(tmpdir(), "backplane-cli-"));
  onTestFinished(() => rmSync(home, { recursive: true, force: true }));
  const io = captureIo({ env: { BACKPLANE_HOME: home }, cwd: home });
  expect(await runProgram(["plugin", "dev", "."], io)).toBe(5);
  expect(io.err()).toContain("backplane up");
});
