/** One table of cases for TypeScript in memory, TypeScript as a process and Python as a process. */
import { execFileSync } from "node:child_process";
import { hash } from "node:crypto";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { verifies } from "../../../test/support/verifies.ts";
import type { CompactRequest, HarnessRequest } from "../src/contracts.ts";
import { type PluginRun, runPlugin, startPlugin } from "../src/testing/index.ts";
import { plugin } from "./fixtures/all-kinds.ts";

const cwd = fileURLToPath(new URL("fixtures", import.meta.url));
const languages: Record<string, { start: () => Promise<PluginRun>; concurrent: number }> = {
  "TypeScript in memory": { start: () => runPlugin(plugin), concurrent: 1_000 },
  "TypeScript process": {
    start: () => startPlugin(["node", "--conditions=backplane-source", "all-kinds.ts"], plugin, { cwd }),
    concurrent: 1_000,
  },
  "Python process": {
    start: () => startPlugin(["python3", "-B", "all_kinds.py"], plugin, { cwd }),
    concurrent: 200,
  },
};

describe.each(Object.entries(languages))("%s", (_language, { start, concurrent }) => {
  let run: PluginRun;
  beforeAll(async () => {
    run = await start();
  });
  afterAll(() => {
    run.close();
  });

  verifies("tool.contract", "returns a value as structured output and as text", async () => {
    const input = { query: "billing outage", list: [1, 2.5, null, true], nested: { "": "x" } };
    const outcome = await run.invoke("echo", input);
    expect(outcome).toEqual({
      status: "succeeded",
      result: {
        content: [{ type: "text", text: JSON.stringify(input) }],
        structured_output: input,
        is_error: false,
        retryable: false,
      },
      events: [],
      text: JSON.stringify(input),
    });
  });

  test("returns a string as text alone, with every character intact", async () => {
    const outcome = await run.invoke("unicode");
    expect(outcome.text).toBe("žluťoučký kůň 🐎 \u{1F469}\u200D\u{1F680}");
    expect(outcome.result).not.toHaveProperty("structured_output");
    const back = await run.invoke("echo", '\u0000\u2028 \\ " ř 🐎');
    expect(back.text).toBe('\u0000\u2028 \\ " ř 🐎');
  });

  test("passes a complete answer through unchanged", async () => {
    const outcome = await run.invoke("complete_answer");
    expect(outcome.result).toEqual({
      content: [{ type: "text", text: "Found 1." }],
      structured_output: { count: 1 },
      is_error: false,
      retryable: false,
    });
  });

  verifies(
    "tool.contract",
    "returns a business failure with its status, is_error and the author's message",
    async () => {
      const failed = await run.invoke("failing");
      expect(failed).toMatchObject({ status: "failed", text: "The ticket is closed." });
      expect(failed.result).toMatchObject({ is_error: true, retryable: false });
      const retry = await run.invoke("retry");
      expect(retry).toMatchObject({ status: "retryable_failure", text: "The service is busy." });
      expect(retry.result).toMatchObject({ is_error: true, retryable: true });
      expect(await run.invoke("throws")).toMatchObject({ status: "failed", text: "a bug" });
    },
  );

  verifies("inv.artifacts", "sends a file by reference and receives large input as a file", async () => {
    const scratch_dir = mkdtempSync(join(tmpdir(), "backplane-sdk-"));
    try {
      const context = { scratch_dir };
      const { result } = await run.invoke("makes-file", { text: "žluťoučký" }, { context });
      const sha256 = hash("sha256", "žluťoučký", "hex");
      const artifact = { transport: "artifact", path: "out/report.txt", bytes: 13, sha256 };
      expect(result?.structured_output).toEqual({ made: artifact, same: true });
      const input = { text: "large" };
      const json = JSON.stringify(input);
      writeFileSync(join(scratch_dir, "input.json"), json);
      const reference = { transport: "artifact", path: "input.json", bytes: json.length };
      const echo = (digest: string) => run.invoke("echo", { ...reference, sha256: digest }, { context });
      expect((await echo(hash("sha256", json, "hex"))).result?.structured_output).toEqual(input);
      expect(await echo("0".repeat(64))).toMatchObject({ status: "failed" });
      expect(await run.invoke("makes-file", { text: "" })).toMatchObject({
        status: "failed",
        text: expect.stringContaining("no scratch folder"),
      });
    } finally {
      rmSync(scratch_dir, { recursive: true, force: true });
    }
  });

  verifies(
    "inv.artifacts",
    "reads a projection and a trigger from their files before the author's code runs",
    async () => {
      const scratch_dir = mkdtempSync(join(tmpdir(), "backplane-sdk-"));
      const writeToScratch = (path: string, value: object) => {
        const json = JSON.stringify(value);
        writeFileSync(join(scratch_dir, path), json);
        const sha256 = hash("sha256", json, "hex");
        return { transport: "artifact", path, bytes: Buffer.byteLength(json), sha256 };
      };
      try {
        const context = { scratch_dir };
        const projection = writeToScratch("projection.json", { blocks: [{}, {}, {}], token_estimate: 7 });
        const source = { chain_id: "ch_9", projection } as unknown as CompactRequest["source"];
        const compacted = await run.compact("window", { compaction_id: "cmp_1", source }, { context });
        expect(compacted.result).toMatchObject({
          seed_blocks: [{ content: [{ text: "3 blocks" }] }],
          diagnostics: { input_tokens_estimate: 7 },
        });
        const trigger = writeToScratch("trigger.json", { type: "message", note: "x".repeat(2_000) });
        const started = await run.runHarness(
          "flow",
          { trigger: trigger as unknown as HarnessRequest["trigger"] },
          { context },
        );
        expect(started.text).toBe("start from 0 with 2000");
      } finally {
        rmSync(scratch_dir, { recursive: true, force: true });
      }
    },
  );

  test("fails a call to an unknown export or with a wrong operation, and names the available exports", async () => {
    const unknown = await run.invoke("missing");
    expect(unknown.status).toBe("failed");
    expect(unknown.text).toMatch(/no export missing for tool\.invoke.*echo/);
    expect((await run.invoke("watch")).text).toMatch(/no export watch for tool\.invoke/);
  });

  test("fails the call, not the process, when a result exceeds the frame limit", async () => {
    const fits = await run.invoke("big", { bytes: 900_000 });
    expect(fits.status).toBe("succeeded");
    expect(fits.result.structured_output).toEqual({ filler: "x".repeat(900_000) });
    expect(fits.text).toMatch(/^900013 characters of JSON/);
    const outcome = await run.invoke("big", { bytes: 1_100_000 });
    expect(outcome.status).toBe("failed");
    expect(outcome.text).toMatch(/\b1100\d{3} bytes.*1048576/);
    expect((await run.invoke("unicode")).status).toBe("succeeded");
  });

  verifies("vai.event", "delivers progress in order, during the call and before its answer", async () => {
    const messages: string[] = [];
    const outcome = await run.invoke(
      "progress",
      { steps: 50 },
      {
        onEvent: (event) => messages.push(event.message as string),
      },
    );
    expect(messages).toEqual(Array.from({ length: 50 }, (_, i) => `step ${i + 1}`));
    expect(outcome.events[49]).toEqual({ type: "progress", message: "step 50", data: { step: 50 } });
    expect(outcome.text).toBe("done");
    expect(run.violations).toEqual([]);
  });

  verifies("vai.cancel", "stops a cancelled call immediately and reports it as cancelled", async () => {
    const stop = new AbortController();
    const started = performance.now();
    const outcome = await run.invoke(
      "slow",
      {},
      {
        signal: stop.signal,
        onEvent: () => stop.abort(),
      },
    );
    expect(outcome.status).toBe("cancelled");
    expect(outcome.text).toMatch(/cancelled: user/);
    expect(performance.now() - started).toBeLessThan(2_000);
  });

  verifies("vai.cancel", "cancels a call in the plugin itself when its deadline passes", async () => {
    // The host here waits much longer, so the plugin itself must check the deadline.
    const deadline_at = new Date(Date.now() + 150).toISOString();
    const outcome = await run.invoke("slow", {}, { context: { deadline_at } });
    expect(outcome.status).toBe("cancelled");
    expect(outcome.text).toMatch(/deadline/);
  });

  test("cancels a call at the host's deadline", async () => {
    const outcome = await run.invoke("slow", {}, { timeout_ms: 100 });
    expect(outcome.status).toBe("cancelled");
  });

  test("passes context, settings, secrets, grant and remaining time to a call", async () => {
    const outcome = await run.invoke(
      "context",
      {},
      {
        config: { base_url: "https://acme.example" },
        secrets: { api_token: "s3cret" },
        grant: { network: "egress" },
        timeout_ms: 20_000,
        context: { session_id: "sess_1" },
      },
    );
    expect(outcome.result.structured_output).toEqual({
      invocation_id: expect.stringMatching(/^inv_test_/),
      session_id: "sess_1",
      config: { base_url: "https://acme.example" },
      secret: "s3cret",
      network: "egress",
      tool_execution_id: expect.stringMatching(/^toolx_test_/),
      has_time: true,
      deadline_agrees: true,
    });
  });

  test("fails with a clear message when a slot is not bound", async () => {
    const outcome = await run.invoke("context");
    expect(outcome.status).toBe("failed");
    expect(outcome.text).toBe("The secret slot api_token is not bound. Map it in the binding's secrets.");
  });

  test("lets a hook acknowledge, request a retry, and refuse events outside its subscriptions", async () => {
    const body = { delivery_id: "del_7", attempt: 3 };
    const subject = { kind: "run", id: "run_1" };
    const outcome = await run.deliver("watch", { type: "run.completed", subject }, { body });
    expect(outcome.status).toBe("ack");
    expect(outcome.events).toEqual([{ type: "progress", message: "run.completed run_1 del_7 3" }]);
    const bad = await run.deliver("watch", {
      type: "run.completed",
      subject: { kind: "run", id: "run_bad" },
    });
    expect(bad).toMatchObject({ status: "retryable_failure", text: "The channel is unavailable." });
    const foreign = await run.deliver("watch", { type: "binding.changed" });
    expect(foreign).toMatchObject({
      status: "failed",
      text: "The hook watch does not subscribe to binding.changed.",
    });
  });

  test("returns the seed of a compactor", async () => {
    const source = {
      chain_id: "ch_9",
      projection: { transport: "inline", blocks: [{}, {}], pinned_items: [], token_estimate: 182_000 },
    };
    const outcome = await run.compact("window", { compaction_id: "cmp_1", source });
    expect(outcome.status).toBe("succeeded");
    expect(outcome.result).toEqual({
      seed_blocks: [{ kind: "input", content: [{ type: "text", text: "2 blocks" }] }],
      summary: { text: "cmp_1 of ch_9" },
      diagnostics: { input_tokens_estimate: 182_000 },
    });
  });

  test("starts a harness, emits its checkpoint, and resumes it from a checkpoint", async () => {
    const first = await run.runHarness("flow");
    expect(first.result).toEqual({ artifacts: [], summary: { text: "start from 0" } });
    expect(first.events).toEqual([
      { type: "checkpoint", checkpoint: { kind: "checkpoint", data: { cursor: 1 } } },
    ]);
    const checkpoint = { kind: "checkpoint", data: { cursor: 1 } };
    const second = await run.runHarness("flow", { mode: "resume", checkpoint });
    expect(second.text).toBe('resume from {"cursor":1}');
  });

  test("calls the gateway with the call's token and reports a 403 as final and a 503 as retryable", async () => {
    const requests: (string | undefined)[] = [];
    let status = 200;
    const gateway = createServer((request, response) => {
      requests.push(`${request.method} ${request.url} ${request.headers.authorization}`);
      response.writeHead(status, { "content-type": "application/json" }).end('{"tools":[]}');
    });
    await new Promise<void>((resolve) => gateway.listen(0, "127.0.0.1", resolve));
    try {
      const base_url = `http://127.0.0.1:${(gateway.address() as AddressInfo).port}`;
      const access = { base_url, delegation_token: "vai_dlg_1", scopes: [] };
      const outcome = await run.invoke("gateway", {}, { gateway: access });
      expect(outcome.result.structured_output).toEqual({ tools: [] });
      status = 403;
      expect((await run.invoke("gateway", {}, { gateway: access })).status).toBe("failed");
      status = 503;
      expect((await run.invoke("gateway", {}, { gateway: access })).status).toBe("retryable_failure");
      expect(requests).toEqual(Array(3).fill("GET /v1/plugin-tools Bearer vai_dlg_1"));
      const without = await run.invoke("gateway");
      expect(without.text).toMatch(/no gateway token.*gateway_api_scopes/);
    } finally {
      gateway.close();
    }
  });

  test("keeps many concurrent calls separate", async () => {
    const calls = Array.from({ length: concurrent }, (_, number) =>
      run.invoke(number % 3 === 0 ? "progress" : "echo", { steps: number % 7, number }),
    );
    const outcomes = await Promise.all(calls);
    const wrong = outcomes.filter((outcome, number) =>
      number % 3 === 0
        ? outcome.text !== "done" || outcome.events.length !== number % 7
        : (outcome.result.structured_output as { number: number }).number !== number,
    );
    expect(wrong).toEqual([]);
    expect(run.violations).toEqual([]);
    expect(run.inFlight).toBe(0);
  });

  test("cancels each of many slow concurrent calls with its own signal", async () => {
    const stops = Array.from({ length: 100 }, () => new AbortController());
    const outcomes = await Promise.all(
      stops.map((stop) => run.invoke("slow", {}, { signal: stop.signal, onEvent: () => stop.abort() })),
    );
    expect(new Set(outcomes.map(({ status }) => status))).toEqual(new Set(["cancelled"]));
  });
});

test("Python reports work as cancelled if it fails because the deadline passed", () => {
  const program = `
import backplane_sdk as sdk
call = object.__new__(sdk.Call)
call.cancelled, call.cancel_reason = sdk.CancelEvent(0), "deadline_exceeded"
call.time_left = lambda: 60.0
def work():
    raise OSError("timed out")
try:
    call.blocking(work)
except Exception as error:
    print(type(error).__name__)
`;
  const sdk = fileURLToPath(new URL("../python", import.meta.url));
  const output = execFileSync("python3", ["-B", "-c", program], { cwd: sdk, encoding: "utf8" });
  expect(output).toBe("Cancelled\n");
});
