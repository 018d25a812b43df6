/**
 * Changes one random byte of a store or of a home, many times: every read returns the correct result or an error, which
 * reports damage if it comes from the store.
 */
import {
  copyFileSync,
  cpSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join, relative } from "node:path";
import { codeOf } from "@backplane/contract";
import { loadConfig, startGateway } from "@backplane/gateway";
import { openSqliteStore } from "@backplane/store";
import { afterAll, beforeAll, expect } from "vitest";
import { fillStore, readEverything } from "../../../packages/store/test/fixtures/full-store.ts";
import { verifies } from "../../support/verifies.ts";

const FLIPS = 500;
const SEED = 20_261_115;
const DAMAGE_CODES = new Set(["store.damaged", "store.commits_lost"]);

let dir: string;
/** The files after an orderly stop. */
let closed: string;
/** The files of the open store, as kill -9 would leave them, with the write-ahead log. */
let killed: string;
let expected: Map<string, string>;

beforeAll(async () => {
  dir = mkdtempSync(join(tmpdir(), "bp-flips-"));
  closed = join(dir, "closed");
  killed = join(dir, "killed");
  const file = join(dir, "store.db");
  const store = await openSqliteStore({ file });
  await fillStore(store);
  copyStore(dir, killed);
  await store.close();
  copyStore(dir, closed);
  const whole = await openSqliteStore({ file });
  expected = await readEverything(whole);
  await whole.close();
  for (const [name, answer] of expected) expect(answer, name).not.toMatch(/^error /);
}, 120_000);
afterAll(() => rmSync(dir, { recursive: true }));

verifies(
  "integrity.rows",
  `answers each read correctly or with an error after each of ${FLIPS} changes of one byte in a store, its write-ahead log or its commit counter`,
  async () => {
    const random = randomFrom(SEED);
    const undetected: string[] = [];
    const unclear: string[] = [];
    const counts = { refused: 0, answered_with_error: 0, harmless: 0 };
    for (let n = 0; n < FLIPS; n++) {
      const home = join(dir, `flip-${n}`);
      copyStore(n % 2 === 0 ? closed : killed, home);
      const change = flip(home, random);
      const outcome = await tryStore(home);
      counts[outcome.kind]++;
      for (const name of outcome.wrong) undetected.push(`${change}: ${name}`);
      if (outcome.unclear !== undefined) unclear.push(`${change}: ${outcome.unclear}`);
      rmSync(home, { recursive: true });
    }
    console.log(JSON.stringify(counts));
    expect(undetected).toEqual([]);
    expect(unclear).toEqual([]);
    // The result is meaningful only if enough changes are detected.
    expect(counts.refused + counts.answered_with_error).toBeGreaterThan(FLIPS / 4);
  },
  600_000,
);

const HOMES = 16;
/** Files of the operator (backplane.toml), files that a start creates again, locks and logs. */
const EXCLUDED =
  /^(sandbox|programs|images)\/|(^|\/)(backplane\.toml|backplane\.lock.*|gateway\.json|gateway\.log|store\.db-shm)$/;
/** The reads of a caller. */
const PATHS = [
  "/v1/keys",
  "/v1/secrets",
  "/v1/audit?limit=100",
  "/v1/policy",
  "/v1/workspaces",
  "/v1/plugin-packages",
  "/v1/plugin-bindings",
  "/v1/approvals",
];

verifies(
  "integrity.rows",
  `refuses to start, answers as before or answers with an error after each of ${HOMES} changes of one byte in a home`,
  async () => {
    const random = randomFrom(SEED + 1);
    const prepared = join(dir, "home");
    const whole = await startOnHome(prepared);
    for (let n = 0; n < 10; n++) {
      await whole.sendRequest("PUT", `/v1/secrets/s${n}`, { value: `value ${n}` });
      await whole.sendRequest("POST", "/v1/keys", { name: `k${n}`, scopes: ["exports:read"] });
    }
    const answers = await whole.answers();
    for (const [i, { status }] of answers.entries()) expect(status, PATHS[i]).toBe(200);
    await whole.stop();
    const undetected: string[] = [];
    const counts = { refused: 0, error: 0, same: 0 };
    for (let n = 0; n < HOMES; n++) {
      const home = join(dir, `home-${n}`);
      cpSync(prepared, home, { recursive: true });
      // The store is larger than all other files together, and mostly empty.
      const other_files = durableFiles(home).filter((name) => name !== "store.db");
      const change = flip(home, random, n % 2 === 0 ? ["store.db"] : other_files, true);
      const opened = await startOnHome(home).catch((error: unknown) => {
        expect(codeOf(error), change).toMatch(/^(store\.damaged|store\.commits_lost|config\.invalid)$/);
        counts.refused++;
        return null;
      });
      if (opened !== null) {
        const current_responses = await opened.answers();
        const errors = current_responses.filter(({ status }) => status >= 400);
        for (const [i, response] of current_responses.entries()) {
          if (response.status < 400 && response.text !== answers[i]!.text)
            undetected.push(`${change}: ${PATHS[i]}`);
        }
        counts[errors.length === 0 ? "same" : "error"]++;
        await opened.stop();
      }
      rmSync(home, { recursive: true });
    }
    console.log(JSON.stringify(counts));
    expect(undetected).toEqual([]);
    expect(counts.refused + counts.error).toBeGreaterThan(HOMES / 8);
  },
  600_000,
);

async function startOnHome(home: string) {
  const gateway = await startGateway(loadConfig({ home, env: {}, flags: { port: 0, log_level: "silent" } }));
  const token = readFileSync(gateway.admin_token_file, "utf8").trim();
  const sendRequest = async (method: string, path: string, body?: unknown) => {
    const response = await fetch(`${gateway.url}${path}`, {
      method,
      headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    return { status: response.status, text: await response.text() };
  };
  return {
    sendRequest,
    answers: () => Promise.all(PATHS.map((path) => sendRequest("GET", path))),
    stop: () => gateway.stop(),
  };
}

function durableFiles(home: string): string[] {
  return readdirSync(home, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => relative(home, join(entry.parentPath, entry.name)))
    .filter((name) => !EXCLUDED.test(name));
}

interface FlipResult {
  kind: "refused" | "answered_with_error" | "harmless";
  /** Reads that returned a different answer without an error. */
  wrong: string[];
  /** Errors that do not report damage. */
  unclear?: string;
}

async function tryStore(home: string): Promise<FlipResult> {
  let store: Awaited<ReturnType<typeof openSqliteStore>>;
  try {
    store = await openSqliteStore({ file: join(home, "store.db"), threaded: false });
  } catch (error) {
    const code = codeOf(error) ?? "none";
    const known = DAMAGE_CODES.has(code) && typeof (error as { fix?: string }).fix === "string";
    return {
      kind: "refused",
      wrong: [],
      ...(known ? {} : { unclear: `${code} ${(error as Error).message}` }),
    };
  }
  try {
    const answers = await readEverything(store);
    const wrong = [...answers].filter(
      ([name, answer]) => !answer.startsWith("error ") && answer !== expected.get(name),
    );
    const errors = [...answers.values()].filter((answer) => answer.startsWith("error "));
    const unclear = errors.find((answer) => !DAMAGE_CODES.has(answer.split(/[ :]/)[1]!));
    return {
      kind: errors.length === 0 ? "harmless" : "answered_with_error",
      wrong: wrong.map(([name]) => name),
      ...(unclear === undefined ? {} : { unclear }),
    };
  } finally {
    await store.close().catch(() => {});
  }
}

function copyStore(from: string, to: string): void {
  mkdirSync(to, { recursive: true });
  for (const name of readdirSync(from)) {
    if (name.startsWith("store.db") && statSync(join(from, name)).isFile())
      copyFileSync(join(from, name), join(to, name));
  }
}

/**
 * Changes one byte of a file. Larger files are chosen more often, but all are equally likely in one of ten cases. With
 * `written_only`, a byte that is not zero is preferred.
 */
function flip(home: string, random: () => number, names = readdirSync(home), written_only = false): string {
  const files = names.map((name) => ({ name, size: statSync(join(home, name)).size }));
  const filled = files.filter(({ size }) => size > 0);
  const total = filled.reduce((sum, { size }) => sum + size, 0);
  let at = Math.floor(random() * total);
  let file = filled[0]!;
  for (const candidate of filled) {
    if (at < 0) break;
    file = candidate;
    at -= candidate.size;
  }
  if (random() < 0.1) file = filled[Math.floor(random() * filled.length)]!;
  const bytes = readFileSync(join(home, file.name));
  let offset = Math.floor(random() * file.size);
  for (let tries = 0; written_only && bytes[offset] === 0 && tries < 1_000; tries++) {
    offset = Math.floor(random() * file.size);
  }
  const original = bytes[offset]!;
  bytes[offset] = original ^ (1 + Math.floor(random() * 255));
  writeFileSync(join(home, file.name), bytes);
  return `${file.name} byte ${offset} ${original} -> ${bytes[offset]}`;
}

/** A seeded generator (mulberry32), so that every run changes the same bytes. */
function randomFrom(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}
