import { spawn } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import {
  BackplaneError,
  codeOf,
  type KernelPlugin,
  type PluginContext,
  type PluginEntry,
} from "@backplane/contract";
import { type KernelTestOptions, testKernelPlugin } from "@backplane/sdk/testing";
import { createTestLogger } from "@backplane/test-kit/test-logger";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { eventually, isAlive } from "../../../../test/support/gateway/processes.ts";
import { BUNDLED_HOST } from "../../../../test/support/kernel-plugins/plugin-host.ts";
import { verifies } from "../../../../test/support/verifies.ts";
import { systemClock } from "../../../gateway/src/host/clock.ts";
import { createEgress } from "../../src/egress/create-egress.ts";
import { createModuleHost, type ModuleHost, type ModuleHostOptions } from "../../src/index.ts";
import { LiveContexts } from "../../src/module-host/live-contexts.ts";
import { ScratchFolders } from "../../src/plugin-folders/scratch-folders.ts";
import { createConfinement } from "../../src/sandbox/confinement.ts";
import { sandboxOptions } from "../support/sandbox.ts";

const NO_NETWORK = { allowed_domains: [] };
let root: string;
const hosts: ModuleHost[] = [];

beforeAll(() => {
  root = mkdtempSync(join(tmpdir(), "backplane-modules-"));
});
afterEach(async () => {
  for (const host of hosts.splice(0)) await host.close();
});
afterAll(() => rmSync(root, { recursive: true }));

function createHost(options: Partial<ModuleHostOptions> = {}): ModuleHost {
  const host = createModuleHost({
    node: process.execPath,
    node_args: ["--conditions=backplane-source"],
    host_module: BUNDLED_HOST,
    clock: systemClock(),
    log: createTestLogger(),
    ...options,
  });
  hosts.push(host);
  return host;
}

/** Writes a module whose plugin has these methods. `prologue` is put at its top. */
function writeEntry(methods: string, prologue = ""): PluginEntry {
  const dir = mkdtempSync(join(root, "plugin-"));
  const module = join(dir, "plugin.mjs");
  const values = `name: "probe", version: "1.0.0", category: "tool", subscriptions: () => ["*"]`;
  writeFileSync(module, `${prologue}\nexport const plugin = { ${values}, ${methods} };`);
  return {
    name: "probe",
    version: "1.0.0",
    category: "tool",
    origin: "installed",
    source: "probe",
    dir,
    module,
  };
}

const loadPlugin = (plugin: KernelPlugin, options: KernelTestOptions = {}) =>
  testKernelPlugin(plugin, { state_dir: root, ...options });
const rejectionOf = (work: Promise<unknown>): Promise<Error> =>
  work.then(
    () => expect.unreachable("it should have thrown"),
    (error) => error as Error,
  );

test.each([
  ["waits", "await new Promise((wake) => setTimeout(wake, 1e8));"],
  ["spins", "for (;;);"],
])("kills a module that %s at import, and its children, and reports the reason", async (_how, hang) => {
  const pids = join(mkdtempSync(join(root, "pids-")), "pids");
  const prologue = `
    import { spawn } from "node:child_process";
    import { writeFileSync } from "node:fs";
    const child = spawn("sleep", ["1000"]);
    writeFileSync(${JSON.stringify(pids)}, process.pid + " " + child.pid);
    console.log("loading");
    ${hang}`;
  const error = await rejectionOf(
    createHost({ timeouts: { load_ms: 3_000 } }).start(writeEntry("", prologue), NO_NETWORK),
  );
  expect(codeOf(error)).toBe("launch_failed");
  expect(error.message).toBe(
    "The module of probe did not finish loading within 3000 ms, so its process was killed. " +
      "A module must not wait at its top level; do that in onLoad. " +
      "Last line on stderr: loading",
  );
  const all = readFileSync(pids, "utf8").split(" ").map(Number);
  expect(all).toHaveLength(2);
  await eventually(() => all.every((pid) => !isAlive(pid)), 5_000, "process and child are gone");
});

test("reports exit code and last line of stderr of a module that exits at import", async () => {
  const error = await rejectionOf(
    createHost().start(writeEntry("", 'console.error("no license"); process.exit(3);'), NO_NETWORK),
  );
  expect(codeOf(error)).toBe("crashed");
  expect(error.message).toMatch(/exited with code 3 before it answered.*Last line on stderr: no license/);
});

test("keeps the protocol intact whatever a plugin prints or writes to descriptor 1", async () => {
  const prologue = `
    import { writeSync } from "node:fs";
    import { stdin, stdout } from "node:process";
    const noise = () => {
      console.log("printed"); console.table([1]); console.dir({});
      process.stdout.write('{"jsonrpc":"2.0","method":"emit","params":{}}\\n');
      stdout.write("named import\\n");
      writeSync(1, "straight to the descriptor\\n");
      process.stdout.write("half a line");
      process.stdin.destroy(); stdin.destroy();
    };
    noise();`;
  const loaded = await createHost().start(
    writeEntry("onEvent: (event, ctx) => { noise(); return ctx.emit('x.probe.a', {}, event); }", prologue),
    NO_NETWORK,
  );
  const run = await loadPlugin(loaded.plugin);
  for (let i = 0; i < 3; i++) await run.event("x.probe.b", {});
  expect(run.emitted).toHaveLength(3);
});

verifies(
  "wire.contradiction",
  "rejects forged replies that contradict themselves or match no request as malformed",
  async () => {
    const both = (id: unknown) => ({
      jsonrpc: "2.0",
      id,
      result: { a: 1 },
      error: { code: 1, message: "m" },
    });
    const replies = {
      "both result and error": Array.from({ length: 20 }, (_, n) => both(n + 1)),
      "the id as a string": Array.from({ length: 20 }, (_, n) => ({ ...both(`${n + 1}`), error: undefined })),
      "a result with a null id": [{ ...both(null), error: undefined }],
    };
    for (const [name, messages] of Object.entries(replies)) {
      const text = messages.map((message) => `${JSON.stringify(message)}\n`).join("");
      const loaded = await createHost().start(
        writeEntry(
          `onEvent: () => { writeSync(1, ${JSON.stringify(text)}); return new Promise(() => {}); }`,
          'import { writeSync } from "node:fs";',
        ),
        NO_NETWORK,
      );
      const run = await loadPlugin(loaded.plugin);
      expect(codeOf(await rejectionOf(run.event("x.probe.a", {}))), name).toBe("malformed_response");
    }
  },
  60_000,
);

test("redacts a plugin's secrets from the error about its exit", async () => {
  const loaded = await createHost().start(
    writeEntry(`async onEvent(event, ctx) {
      const { api_key } = await ctx.config();
      const [{ config }] = await ctx.providers.listInstances();
      setTimeout(() => { throw new Error("rejected: " + api_key + " and " + config.token); });
      await new Promise(() => {});
    }`),
    NO_NETWORK,
  );
  const run = await loadPlugin(loaded.plugin, {
    config: { api_key: "sk-very-secret-1" },
    providers: [{ id: "main", plugin: "probe", label: "", config: { token: "tok-very-secret-2" } }],
  });
  const error = await rejectionOf(run.event("x.probe.a", {}));
  expect(error.message).toContain("rejected: [redacted] and [redacted]");
  expect(`${error.message}${error.stack}`).not.toContain("very-secret");
});

test("rejects requests with wrong parameter types", async () => {
  const loaded = await createHost().start(
    writeEntry(`async onEvent(event, ctx) {
      const refusal = (work) => work.then(() => "taken", (error) => error.message);
      const answers = [
        await refusal(ctx.emit(7, {}, event)),
        await refusal(ctx.emit("x.probe.a", "text", event)),
        await refusal(ctx.emit("x.probe.a", {}, { session_id: null })),
        await refusal(ctx.service("door", [])),
        await refusal(ctx.registerTool({ name: "t", description: "d", parameters: "none", run() {} })),
        await refusal(ctx.emit("x.probe.a", { n: 1n }, event)),
        await refusal(ctx.emit("x.probe.a", { text: "x".repeat(9 * 1024 * 1024) }, event)),
      ];
      const loop = {}; loop.loop = loop;
      ctx.log.info(loop, "a cycle");
      await ctx.emit("x.probe.answers", { answers }, event);
    }`),
    NO_NETWORK,
  );
  const run = await loadPlugin(loaded.plugin);
  await run.event("x.probe.b", {});
  const { answers } = run.emitted[0]!.payload as { answers: string[] };
  expect(run.emitted).toHaveLength(1);
  expect(answers).not.toContain("taken");
  expect(answers.slice(0, 5)).toEqual([
    "The parameter kind has the wrong type.",
    "The parameter payload has the wrong type.",
    "The parameter session_id has the wrong type.",
    "The parameter args has the wrong type.",
    "the parameters of tool t are not a JSON Schema of an object",
  ]);
});

test("rejects a tool with an unknown value and names the allowed ones", async () => {
  const loaded = await createHost().start(
    writeEntry(`async onEvent(event, ctx) {
      const tool = { name: "t", description: "d", parameters: { type: "object" }, run() {} };
      const answers = [];
      for (const fields of event.payload.tools) {
        answers.push(await ctx.registerTool({ ...tool, ...fields }).then(() => "registered", (error) => error.message));
      }
      await ctx.emit("x.probe.answers", { answers }, event);
    }`),
    NO_NETWORK,
  );
  const run = await loadPlugin(loaded.plugin);
  const tools = [
    { effect_class: "readonly" },
    { effect_class: 7 },
    { requires_approval: "yes" },
    { timeout_ms: "500" },
    { name: "t", effect_class: "read_only", requires_approval: true, timeout_ms: 500, risk: "low" },
  ];
  await run.event("x.probe.b", { tools });
  const allowed = "of tool t is not one of read_only, idempotent_write, non_idempotent_write, unknown";
  expect(run.emitted[0]!.payload.answers).toEqual([
    `the effect_class "readonly" ${allowed}`,
    `the effect_class (number) ${allowed}`,
    "requires_approval of tool t is neither true nor false",
    "timeout_ms of tool t is not a positive number",
    "registered",
  ]);
  expect(run.tools.get("t")).toMatchObject(tools[4]!);
});

test("the process exits when the gateway closes the pipe", async () => {
  const mark = join(mkdtempSync(join(root, "mark-")), "pid");
  const prologue = `import { writeFileSync } from "node:fs"; writeFileSync(${JSON.stringify(mark)}, String(process.pid));
    process.on("exit", (code) => writeFileSync(${JSON.stringify(`${mark}.exit`)}, String(code)));
    setInterval(() => {}, 1000);`;
  const loaded = await createHost({ timeouts: { stop_ms: 60_000 } }).start(
    writeEntry("", prologue),
    NO_NETWORK,
  );
  const errors: Error[] = [];
  loaded.onExit((error) => errors.push(error));
  await loaded.close();
  expect(existsSync(mark)).toBe(true);
  expect(readFileSync(`${mark}.exit`, "utf8")).toBe("0");
  // The gateway stopped the process, so no exit is reported.
  expect(errors).toEqual([]);
});

test("the process exits when the gateway is killed, even if the module spins", async () => {
  const mark = join(mkdtempSync(join(root, "mark-")), "pid");
  const { module } = writeEntry(
    "",
    `import { renameSync, writeFileSync } from "node:fs";
    writeFileSync(${JSON.stringify(`${mark}.new`)}, String(process.pid));
    renameSync(${JSON.stringify(`${mark}.new`)}, ${JSON.stringify(mark)});
    for (;;);`,
  );
  const program = join(import.meta.dirname, "../fixtures/host-a-module.ts");
  const gateway = spawn(process.execPath, ["--conditions=backplane-source", program, module], {
    stdio: "ignore",
  });
  try {
    await eventually(() => existsSync(mark), 60_000, "the plugin spins");
    const pid = Number(readFileSync(mark, "utf8"));
    expect(isAlive(pid)).toBe(true);
    gateway.kill("SIGKILL");
    await eventually(() => !isAlive(pid), 10_000, "the plugin is gone");
  } finally {
    gateway.kill("SIGKILL");
  }
});

test("fails with sandbox.unavailable and the fix instead of starting a plain process", async () => {
  const mark = join(mkdtempSync(join(root, "mark-")), "started");
  const entry = writeEntry(
    "",
    `import { writeFileSync } from "node:fs"; writeFileSync(${JSON.stringify(mark)}, "");`,
  );
  const options = {
    node: process.execPath,
    host_module: BUNDLED_HOST,
    clock: systemClock(),
    log: createTestLogger(),
  };
  const confinement = createConfinement(sandboxOptions({ init: "/nonexistent" }));
  const egress = createEgress({ clock: options.clock });
  const scratch = new ScratchFolders(mkdtempSync(join(root, "scratch-")), options.log);
  const host = createModuleHost(options, { confinement, egress, scratch });
  hosts.push(host);
  const error = await rejectionOf(host.start(entry, NO_NETWORK));
  expect(error).toMatchObject({
    code: "sandbox.unavailable",
    fix: expect.stringMatching(/^Install Backplane again/),
  });
  expect(error.message).toMatch(/sandbox-init cannot be used: .* Fix: Install Backplane again/);
  expect(existsSync(mark)).toBe(false);
  await confinement.close();
});

test("passes large conversations in both directions", async () => {
  const loaded = await createHost().start(
    writeEntry("onEvent: (event, ctx) => ctx.emit('x.probe.size', { text: event.payload.text }, event)"),
    NO_NETWORK,
  );
  const run = await loadPlugin(loaded.plugin);
  const text = "é".repeat(2 * 1024 * 1024);
  await run.event("x.probe.a", { text });
  expect(run.emitted[0]!.payload.text).toBe(text);
});

test("keeps contexts that are in use and rejects an evicted context", () => {
  const contexts = new LiveContexts(3);
  const createContext = (name: string) => ({ name, stateDir: "/" }) as PluginContext;
  const running = contexts.hold(createContext("running"));
  const used = contexts.hold(createContext("used"));
  contexts.release(used.id);
  const same = createContext("same");
  const first = contexts.hold(same);
  expect(contexts.hold(same).id).toBe(first.id);
  contexts.release(first.id);
  contexts.release(first.id);
  for (let i = 0; i < 5; i++) {
    expect(contexts.find(used.id).name).toBe("used");
    contexts.release(contexts.hold(createContext(`other ${i}`)).id);
  }
  expect(contexts.size).toBe(3);
  expect(contexts.find(running.id).name).toBe("running");
  expect(() => contexts.find(first.id)).toThrow(BackplaneError);
  expect(() => contexts.find("1")).toThrow(BackplaneError);
  // An evicted context that is used again gets a new number.
  expect(contexts.hold(same).id).not.toBe(first.id);
});
