/**
 * Upgrades under load: the time until the new version answers and, if the new version crashes, the time until the
 * previous one answers again.
 */
import { cpSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { buildEchoPackage } from "../../fixtures/echo-package.ts";
import { createRow, type Row } from "../../measuring/row.ts";
import { percentile } from "../../measuring/statistics.ts";
import { type Server, startGateway } from "../../processes/server-process.ts";

const CALLS_PER_SECOND = 500;
const SECONDS_BEFORE = 2;
const SECONDS_AFTER = 3;
const MAX_ROLLBACK_MS = 5_000;

interface EndedCall {
  sent_at: number;
  ended_at: number;
  status: string;
  version: string;
  /** The version on trial that crashed before `version` answered. */
  crashed_in: string | null;
}

export async function measureUpgradeSwitch(): Promise<Row[]> {
  const echo = await buildEchoPackage();
  const next = writeVersion(echo.folder, "1.1.0", false);
  const crashing = writeVersion(echo.folder, "1.2.0", true);
  const server = await startGateway();
  const post = createPost(server);
  try {
    for (const folder of [echo.folder, next, crashing])
      await post("/v1/plugin-packages", { source: { folder } });
    const binding = { package_id: "bench/echo", package_version: "1.0.0", export_id: "echo" };
    await post("/v1/plugin-bindings", { ...binding, policy: { class: "worker" } });
    // An upgrade drops a lowered class, so the class is set with the version.
    const upgrade = (package_version: string) =>
      post("/v1/plugin-bindings:upgrade", {
        package_id: "bench/echo",
        package_version,
        bindings: { echo: { policy: { class: "worker" } } },
      });
    await measureUnderLoad(post, async () => {});
    const switched = await measureUnderLoad(post, () => upgrade("1.1.0"));
    const failed = switched.calls.filter(({ status }) => status !== "succeeded");
    const first = switched.calls.find(({ version }) => version === "1.1.0");
    if (first === undefined) throw new Error("the new version did not answer");
    const during = switched.calls
      .filter(({ sent_at }) => sent_at >= switched.from && sent_at <= first.ended_at)
      .map(({ sent_at, ended_at }) => ended_at - sent_at);
    const crashed = await measureUnderLoad(post, () => upgrade("1.2.0"));
    const crashed_calls = crashed.calls.filter(
      ({ version, crashed_in }) => crashed_in === "1.2.0" || version === "1.2.0",
    );
    if (crashed_calls.length === 0) throw new Error("version 1.2.0 did not crash");
    const lost = crashed.calls.filter(({ status }) => status !== "succeeded");
    const start = Math.min(...crashed_calls.map(({ sent_at }) => sent_at));
    const last = Math.max(...crashed_calls.map(({ ended_at }) => ended_at));
    if (crashed.calls.at(-1)!.version !== "1.1.0") throw new Error("version 1.2.0 was not rolled back");
    const peers = {
      failed: failed.length,
      calls: switched.calls.length,
      p99_ms: percentile(during, 0.99),
    };
    return [
      createRow(
        "upgrade.switch",
        `ms from the request to the end of the first call to the new version, ${CALLS_PER_SECOND} calls/s`,
        "lower",
        first.ended_at - switched.from,
        null,
        peers,
      ),
      createRow(
        "upgrade.failed",
        `failed calls out of ${switched.calls.length}`,
        "lower",
        failed.length,
        null,
      ),
      createRow(
        "upgrade.rollback",
        "ms from the first call to a crashing version to the end of the last one",
        "lower",
        last - start,
        MAX_ROLLBACK_MS,
        { failed: lost.length, crashed: crashed_calls.length, calls: crashed.calls.length },
      ),
      createRow(
        "upgrade.rollback-failed",
        `failed calls out of ${crashed.calls.length}`,
        "lower",
        lost.length,
        null,
      ),
    ];
  } finally {
    await server.stop();
    for (const folder of [next, crashing]) rmSync(folder, { recursive: true, force: true });
    echo.remove();
  }
}

/** Sends calls at a fixed rate, whether or not earlier ones have ended. Returns them sorted by the time they ended. */
async function measureUnderLoad(
  post: Post,
  action: () => Promise<unknown>,
): Promise<{ from: number; calls: EndedCall[] }> {
  const calls: EndedCall[] = [];
  const pending = new Set<Promise<void>>();
  const call = async () => {
    const sent_at = performance.now();
    const { status, package_version, fallback_from } = await post("/v1/invocations?wait=true", {
      export_id: "echo",
      input: { text: "x".repeat(100) },
    });
    calls.push({
      sent_at,
      ended_at: performance.now(),
      status: status!,
      version: package_version!,
      crashed_in: fallback_from?.package_version ?? null,
    });
  };
  const start = performance.now();
  let from = 0;
  let action_done: Promise<unknown> | null = null;
  let until = Number.POSITIVE_INFINITY;
  for (let sent = 0; performance.now() < until; ) {
    const elapsed = performance.now() - start;
    if (action_done === null && elapsed > SECONDS_BEFORE * 1_000) {
      from = performance.now();
      action_done = action().finally(() => {
        until = performance.now() + SECONDS_AFTER * 1_000;
      });
    }
    for (const due = (elapsed / 1_000) * CALLS_PER_SECOND; sent < due; sent++) {
      const running: Promise<void> = call().finally(() => pending.delete(running));
      pending.add(running);
    }
    await new Promise((resolve) => setTimeout(resolve, 2));
  }
  await action_done;
  await Promise.all(pending);
  return { from, calls: calls.toSorted((a, b) => a.ended_at - b.ended_at) };
}

interface CallResponse {
  status?: string;
  package_version?: string;
  fallback_from?: { package_version: string };
}

type Post = (path: string, body: unknown) => Promise<CallResponse>;

function createPost(server: Server): Post {
  const headers = { "content-type": "application/json", authorization: `Bearer ${server.token}` };
  return async (path, body) => {
    const response = await fetch(server.url + path, { method: "POST", headers, body: JSON.stringify(body) });
    const call_response = (await response.json()) as CallResponse;
    if (!response.ok)
      throw new Error(`${path} returned HTTP ${response.status}: ${JSON.stringify(call_response)}`);
    return call_response;
  };
}

function writeVersion(folder: string, version: string, crashes: boolean): string {
  const copy = `${folder}-${version}`;
  cpSync(folder, copy, { recursive: true });
  const edit = (file: string, change: (text: string) => string) => {
    const path = join(copy, file);
    const before = readFileSync(path, "utf8");
    const after = change(before);
    if (after === before) throw new Error(`${file} does not contain the text to replace`);
    writeFileSync(path, after);
  };
  edit("vai-plugin.toml", (text) => text.replace('version = "1.0.0"', `version = "${version}"`));
  edit("bin/plugin.mjs", (text) => text.replace('version: "1.0.0"', `version: "${version}"`));
  if (crashes)
    edit("bin/plugin.mjs", (text) =>
      text.replace("run: (input) => (", "run: (input) => process.exit(9) ?? ("),
    );
  return copy;
}
