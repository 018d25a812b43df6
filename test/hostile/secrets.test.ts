/**
 * Canaries: real plugins leak their secrets in many ways. Then everything that the gateway wrote or returned is
 * searched for them: database and its log, files, logs, records, event streams, CLI output.
 */
import { randomBytes } from "node:crypto";
import { readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { startTestGateway, type TestGateway } from "../support/gateway/gateway.ts";
import { eventually } from "../support/gateway/processes.ts";
import { verifies } from "../support/verifies.ts";
import { LEAKS, writeLeakyPlugin } from "./secret-plugins.ts";

const mark = randomBytes(9).toString("hex");
const CANARIES = { odd: `cAn"é/+ ~%\\9${mark}x`, plain: `canary${mark.toUpperCase()}` };
let gateway: TestGateway;
const outputs: string[] = [];
const ids: string[] = [];

beforeAll(async () => {
  gateway = await startTestGateway({ env: { BACKPLANE_LOG_LEVEL: "debug" } });
  for (const [name, value] of Object.entries(CANARIES)) {
    expect((await sendRequest("PUT", `/v1/secrets/${name}`, { value })).status).toBe(200);
  }
});
afterAll(() => gateway.dispose());

async function sendRequest(method: string, path: string, body?: unknown) {
  const response = await gateway.http<Record<string, unknown>>(method, path, body);
  outputs.push(JSON.stringify(response.body), JSON.stringify([...response.headers]));
  return response;
}

async function bind(language: keyof typeof LEAKS): Promise<void> {
  const { body } = await sendRequest("POST", "/v1/plugin-packages", {
    source: { folder: writeLeakyPlugin(language) },
  });
  const bound = await sendRequest("POST", "/v1/plugin-bindings", {
    package_id: body.package_id,
    package_version: body.version,
    export_id: LEAKS[language]!.export_id,
    secrets: { odd: "secret://org_local/odd", plain: "secret://org_local/plain" },
    policy: { class: "worker" },
  });
  expect(bound.status, JSON.stringify(bound.body)).toBe(201);
}

async function callLeakyPlugin(language: keyof typeof LEAKS, mode: string, more: object = {}) {
  const { export_id } = LEAKS[language]!;
  const { body } = await sendRequest("POST", "/v1/invocations?wait=30", {
    export_id,
    input: { mode },
    ...more,
  });
  const id = (body.id ??
    (body.error as { details?: { invocation_id?: string } })?.details?.invocation_id) as string;
  ids.push(id);
  return body as { status?: string; error?: { code: string }; stderr_tail?: string };
}

/** The canaries, and the random part that they share, in every encoding. */
function encodedCanaries(): Buffer[] {
  const encodings = new Set<string>();
  for (const value of [...Object.values(CANARIES), mark, mark.toUpperCase()]) {
    encodings.add(value).add(JSON.stringify(value).slice(1, -1)).add(encodeURIComponent(value));
    encodings.add(Buffer.from(value).toString("hex")).add(Buffer.from(value).toString("hex").toUpperCase());
    for (const prefix of ["", "a", "ab"]) {
      const code = Buffer.from(prefix + value)
        .toString("base64")
        .replaceAll("=", "")
        .slice(prefix.length + 1, -1);
      encodings.add(code).add(code.replaceAll("+", "-").replaceAll("/", "_"));
    }
  }
  return [...encodings].map((text) => Buffer.from(text));
}

const TOKEN = /vai_dlg_[A-Za-z0-9_-]{20}/;

function findCopies(where: string, bytes: Buffer): string[] {
  const leaked = encodedCanaries().filter((encoded) => bytes.includes(encoded));
  const token = TOKEN.exec(bytes.toString("latin1"));
  return [...leaked.map(String), ...(token === null ? [] : [token[0]])].map((copy) => `${where}: ${copy}`);
}

function* filesBelow(dir: string): Generator<string> {
  for (const name of readdirSync(dir)) {
    const path = join(dir, name);
    if (statSync(path, { throwIfNoEntry: false })?.isDirectory() === true) yield* filesBelow(path);
    else if (statSync(path, { throwIfNoEntry: false })?.isFile() === true) yield path;
  }
}

function descendants(root_pid: number): number[] {
  const parents = new Map<number, number>();
  for (const entry of readdirSync("/proc").filter((name) => /^\d+$/.test(name))) {
    try {
      const stat = readFileSync(`/proc/${entry}/stat`, "latin1");
      parents.set(Number(entry), Number(stat.slice(stat.lastIndexOf(")") + 2).split(" ")[1]));
    } catch {
      // The process exited meanwhile.
    }
  }
  const below = (pid: number): boolean => {
    const parent = parents.get(pid);
    return parent !== undefined && parent > 1 && (parent === root_pid || below(parent));
  };
  return [...parents.keys()].filter(below);
}

/** The system shows the environment of a sandboxed process only to root; even the gateway's user cannot read it. */
function environmentOf(pid: number): Buffer {
  try {
    return readFileSync(`/proc/${pid}/environ`);
  } catch (error) {
    if (process.getuid!() !== 0 && (error as NodeJS.ErrnoException).code === "EACCES") return Buffer.alloc(0);
    throw error;
  }
}

test("control: the search finds a canary that exists", () => {
  for (const value of Object.values(CANARIES)) {
    for (const text of [
      value,
      `{"a":${JSON.stringify(value)}}`,
      Buffer.from(`me:${value}`).toString("base64"),
    ]) {
      expect(findCopies("here", Buffer.from(text))).not.toEqual([]);
    }
  }
  expect(findCopies("here", Buffer.from(`vai_dlg_${"a".repeat(43)}`))).toHaveLength(1);
});

test.each(Object.keys(LEAKS))(
  "calls the %s plugin in every mode in which it leaks its secrets",
  async (language) => {
    await bind(language);
    const outcomes: Record<string, unknown> = {};
    for (const mode of LEAKS[language]!.modes) {
      const { status, error } = await callLeakyPlugin(language, mode);
      outcomes[mode] = status ?? error?.code;
    }
    const [first] = LEAKS[language]!.modes;
    expect(outcomes[first!], JSON.stringify(outcomes)).toBe("succeeded");
    expect(Object.values(outcomes).filter((outcome) => outcome === "failed").length).toBeGreaterThan(1);
  },
  120_000,
);

verifies(
  "secret.slots",
  "exposes no secret in the environment or command line of a running plugin",
  async () => {
    const { export_id } = LEAKS.node!;
    const { body } = await sendRequest("POST", "/v1/invocations", { export_id, input: { mode: "hang" } });
    ids.push(body.id as string);
    const command_lines: string[] = [];
    await eventually(
      async () => {
        for (const pid of descendants(gateway.pid)) {
          try {
            const [argv, env] = [readFileSync(`/proc/${pid}/cmdline`), environmentOf(pid)];
            if (argv.includes("plugin.mjs")) command_lines.push(argv.toString());
            expect([...findCopies("argv", argv), ...findCopies("environ", env)]).toEqual([]);
            expect(env.includes("BACKPLANE_") && argv.includes("plugin.mjs")).toBe(false);
          } catch (error) {
            if (
              (error as { code?: string }).code !== "ENOENT" &&
              (error as { code?: string }).code !== "ESRCH"
            )
              throw error;
          }
        }
        return command_lines.length > 0;
      },
      10_000,
      "the plugin runs",
    );
    expect((await sendRequest("POST", `/v1/invocations/${String(body.id)}:cancel`)).status).toBe(202);
  },
  30_000,
);

verifies(
  "secret.slots",
  "leaves no copy of a secret in the home, the log, responses or the output of commands",
  async () => {
    const redacted_ids: string[] = [];
    for (const id of ids) {
      const record = await sendRequest("GET", `/v1/invocations/${id}`);
      if ((record.body.stderr_tail as string | null)?.includes("[redacted]")) redacted_ids.push(id);
      const events = await fetch(`${gateway.url}/v1/invocations/${id}/events`, {
        headers: { authorization: `Bearer ${gateway.token}` },
      });
      outputs.push(await events.text());
    }
    // The plugins did leak their secrets, and the gateway redacted them.
    expect(redacted_ids.length).toBeGreaterThan(5);
    for (const path of [
      "/v1/invocations?limit=200",
      "/v1/audit",
      "/v1/secrets",
      "/v1/plugin-bindings",
      "/v1/status",
    ]) {
      await sendRequest("GET", path);
    }
    for (const args of [
      ["invocation", "list"],
      ["invocation", "show", ids[0]!],
      ["secret", "list"],
      ["audit", "list"],
    ]) {
      const { stdout, stderr } = await gateway.cli(...args);
      outputs.push(stdout, stderr);
    }
    const copies = outputs.flatMap((text, i) => findCopies(`output ${i}`, Buffer.from(text)));
    const search = () => {
      let searched = 0;
      for (const file of filesBelow(gateway.home)) {
        copies.push(...findCopies(file, readFileSync(file)));
        searched++;
      }
      return searched;
    };
    // While the gateway runs, the newest rows are in the write-ahead log; after its end they are in the file.
    expect(search()).toBeGreaterThan(5);
    await gateway.stop();
    search();
    copies.push(...findCopies("log", Buffer.from(gateway.log())));
    expect(gateway.log()).toContain("{");
    expect(copies).toEqual([]);
  },
  60_000,
);
