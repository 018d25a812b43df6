/**
 * A gateway whose disk is full or fails: every write is either acknowledged and kept, or refused with a 5xx and absent.
 * When the disk works again, so does the gateway, without a restart.
 */
import { execFileSync } from "node:child_process";
import { closeSync, mkdtempSync, openSync, rmSync, statSync, writeSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished } from "vitest";
import { startTestGateway, type TestGateway } from "../support/gateway.ts";
import { installAndBind, vaiProgram, writePluginFolder } from "../support/plugin-folder.ts";
import { eventually } from "../support/processes.ts";
import { verifies } from "../support/verifies.ts";

const ECHO = `async (call) => ({ status: "succeeded", result: { content: [], structured_output: call.body.input } })`;
/** A write-ahead log that has room takes some writes although the disk is full. */
const MOST_WRITES = 400;
/** How many writes must be refused, so that every kind has been. */
const REFUSALS = 25;

interface Written {
  what: string;
  name: string;
  status: number;
  code: string | undefined;
}

/** Writes of every kind of record, each under a name that can be looked for. */
const KINDS: Record<string, (gateway: TestGateway, name: string) => ReturnType<TestGateway["http"]>> = {
  invocation: (gateway, name) =>
    gateway.http("POST", "/v1/invocations", { export_id: "echo", input: { name, fill: "x".repeat(4_000) } }),
  secret: (gateway, name) => gateway.http("PUT", `/v1/secrets/${name}`, { value: "x".repeat(2_000) }),
  config: (gateway, name) =>
    gateway.http("PATCH", `/api/config/plugin.probe.${name}`, { value: "x".repeat(2_000) }),
  key: (gateway, name) => gateway.http("POST", "/v1/keys", { name, scopes: ["invocations:read"] }),
  session: (gateway, name) => gateway.http("POST", `/v1/sessions/${name}/messages`, { text: "hello" }),
};

async function writeAll(gateway: TestGateway, prefix: string): Promise<Written[]> {
  const written: Written[] = [];
  const refusals = () => written.filter(({ status }) => status >= 500).length;
  for (let n = 0; n < MOST_WRITES && refusals() < REFUSALS; n++) {
    const what = Object.keys(KINDS)[n % 5]!;
    const name = `${prefix}_${what}_${n}`;
    const { status, body } = await KINDS[what]!(gateway, name);
    const { error } = (body ?? {}) as { error?: { code: string } };
    written.push({ what, name, status, code: error?.code });
  }
  return written;
}

interface Page {
  next?: string | null;
  items?: { id: string }[];
}

/** All names that the gateway has, from its lists. */
async function storedNames(gateway: TestGateway): Promise<string> {
  const pages = [
    "/v1/secrets?limit=200",
    "/api/config",
    "/v1/keys?limit=200",
    "/v1/sessions?limit=200",
    "/v1/invocations?limit=200",
  ];
  const texts: string[] = [];
  for (const path of pages) {
    let next: string | null = path;
    while (next !== null) {
      const { status, body }: { status: number; body: Page } = await gateway.http<Page>("GET", next);
      expect(status, path).toBe(200);
      texts.push(JSON.stringify(body));
      if (path.startsWith("/v1/invocations"))
        for (const { id } of body.items ?? [])
          texts.push(JSON.stringify((await gateway.http("GET", `/v1/invocations/${id}`)).body));
      next = body.next == null ? null : `${path}&after=${encodeURIComponent(body.next)}`;
    }
  }
  return texts.join("\n");
}

async function checkFault(
  gateway: TestGateway,
  { fail, repair }: { fail: () => void; repair: () => void },
): Promise<void> {
  const folder = writePluginFolder({
    package_id: "acme/echo",
    entrypoint: ["node", "./bin/plugin.mjs"],
    files: { "bin/plugin.mjs": vaiProgram("acme/echo", ECHO) },
    exports: [{ id: "echo", effect_class: "read_only", default_timeout_ms: 60_000 }],
  });
  await installAndBind(gateway, folder, ["echo"], { class: "worker" });
  const before = await gateway.http("PUT", "/v1/secrets/before", { value: "x" });
  expect(before.status).toBeLessThan(300);
  fail();
  const written = await writeAll(gateway, "full");
  const refused = written.filter(({ status }) => status >= 500);
  expect(refused.length, JSON.stringify(written.slice(-5))).toBe(REFUSALS);
  // A failing disk is never the caller's mistake.
  expect(written.filter(({ status }) => status >= 300 && status < 500)).toEqual([]);
  expect(new Set(refused.map(({ what }) => what))).toEqual(new Set(Object.keys(KINDS)));
  expect(new Set(refused.map(({ code }) => code))).toEqual(new Set(["store.unavailable"]));
  expect((await gateway.http("GET", "/healthz")).status).toBe(200);
  repair();
  await eventually(
    async () =>
      (await gateway.http("POST", "/v1/invocations?wait=20", { export_id: "echo", input: {} })).status ===
      200,
    60_000,
    "a call succeeds again",
  );
  const check = async (running: TestGateway) => {
    const names = await storedNames(running);
    const wrong = written.filter(({ name, status }) => names.includes(`"${name}"`) !== status < 300);
    expect(wrong).toEqual([]);
    expect(names).toContain('"before"');
  };
  await check(gateway);
  const { code, stdout } = await gateway.cli("doctor", "--json");
  expect(code, stdout).toBeLessThan(2);
  await gateway.stop();
  const again = await startTestGateway({ home: gateway.home });
  onTestFinished(() => again.dispose());
  await check(again);
}

verifies(
  "fault.disk",
  "refuses writes on a full disk with 5xx, keeps what it acknowledged, and recovers without a restart",
  async ({ skip }) => {
    const disk = mkdtempSync(join(tmpdir(), "backplane-full-"));
    try {
      execFileSync("mount", ["-t", "tmpfs", "-o", "size=64m,mode=0700", "tmpfs", disk], { stdio: "pipe" });
    } catch {
      rmSync(disk, { recursive: true });
      skip("mounting a small file system needs root");
    }
    onTestFinished(() => {
      execFileSync("umount", ["--lazy", disk]);
      rmSync(disk, { recursive: true, force: true });
    });
    const gateway = await startTestGateway({ home: join(disk, "home") });
    onTestFinished(async () => void (await gateway.stop()));
    const filler = join(disk, "filler");
    await checkFault(gateway, {
      fail() {
        const file = openSync(filler, "w");
        try {
          for (const size of [1 << 20, 4096]) {
            try {
              for (;;) writeSync(file, Buffer.alloc(size));
            } catch (error) {
              expect((error as NodeJS.ErrnoException).code).toBe("ENOSPC");
            }
          }
        } finally {
          closeSync(file);
        }
      },
      repair: () => rmSync(filler),
    });
  },
  180_000,
);

verifies(
  "fault.disk",
  "refuses writes that the disk fails with 5xx, keeps what it acknowledged, and recovers without a restart",
  async () => {
    const gateway = await startTestGateway();
    onTestFinished(async () => void (await gateway.stop()));
    const limit = (bytes: number | "unlimited") =>
      execFileSync("prlimit", ["--pid", String(gateway.pid), `--fsize=${bytes}:`], { stdio: "pipe" });
    await checkFault(gateway, {
      // Writes beyond this size of any file fail with EFBIG, which SQLite reports as an I/O error.
      fail: () => void limit(statSync(join(gateway.home, "store.db-wal")).size + 65_536),
      repair: () => void limit("unlimited"),
    });
  },
  180_000,
);
