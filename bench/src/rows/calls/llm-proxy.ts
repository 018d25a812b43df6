/**
 * The time to the first chunk of a model's answer through the chat completions endpoint (authenticated, and recorded on
 * disk first), compared with a direct request to the same local server; and the number of concurrent streams that arrive
 * complete. A minimal proxy, which only writes a record and forwards the request, shows how much of the added time is
 * due to the machine.
 */
import { closeSync, fdatasyncSync, mkdtempSync, openSync, rmSync, writeSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createRow, type Row } from "../../measuring/row.ts";
import { median, percentile } from "../../measuring/statistics.ts";
import {
  type Server,
  startChatModel,
  startGateway,
  startRecordingProxy,
} from "../../processes/server-process.ts";

interface Target {
  url: string;
  headers: Record<string, string>;
  model: string;
}

const REPETITIONS = 7;
const CALLS = 200;
const STREAMS = 200;
const CHUNKS = 50;
/** The limit for the time that the endpoint adds. */
const MAX_ADDED_MS = 2;

export async function measureLlmProxy(): Promise<Row[]> {
  const folder = mkdtempSync(join(tmpdir(), "backplane-bench-proxy-"));
  const model = await startChatModel();
  const recording = await startRecordingProxy(model.url, join(folder, "records"));
  const ours = await startGateway();
  try {
    const headers = { "content-type": "application/json", authorization: `Bearer ${ours.token}` };
    await createInstance(ours, headers, `${model.url}/v1`);
    const direct: Target = { url: `${model.url}/v1/chat/completions`, headers, model: "m" };
    const proxied: Target = { url: `${ours.url}/v1/chat/completions`, headers, model: "local/m" };
    const recorded: Target = { ...direct, url: `${recording.url}/v1/chat/completions` };
    for (const target of [direct, recorded, proxied]) await measureFirstChunks(target, 2 * CALLS);
    const figures = {
      direct: { p50: [] as number[], p99: [] as number[] },
      recording: { p50: [] as number[], p99: [] as number[] },
      ours: { p50: [] as number[], p99: [] as number[] },
    };
    for (let repetition = 0; repetition < REPETITIONS; repetition++) {
      for (const [key, target] of [
        ["direct", direct],
        ["recording", recorded],
        ["ours", proxied],
      ] as const) {
        const times = await measureFirstChunks(target, CALLS);
        figures[key].p50.push(percentile(times, 0.5));
        figures[key].p99.push(percentile(times, 0.99));
      }
    }
    // The endpoint waits until the record is on disk. The time of a bare write, reported as `sync`, explains most of p50.
    const p50 = {
      ours: median(figures.ours.p50),
      direct: median(figures.direct.p50),
      recording_proxy: median(figures.recording.p50),
      sync: percentile(measureDiskSyncs(), 0.5),
    };
    const p99 = {
      ours: median(figures.ours.p99),
      direct: median(figures.direct.p99),
      recording_proxy: median(figures.recording.p99),
    };
    const complete = await countCompleteStreams(proxied);
    return [
      createRow(
        "llm.proxy",
        "ms added to the first chunk, p50",
        "lower",
        p50.ours - p50.direct,
        MAX_ADDED_MS,
        p50,
      ),
      createRow(
        "llm.proxy.p99",
        "ms added to the first chunk, p99",
        "lower",
        p99.ours - p99.direct,
        null,
        p99,
      ),
      createRow(
        "llm.proxy.streams",
        `complete streams out of ${STREAMS} concurrent ones`,
        "higher",
        complete,
        STREAMS,
      ),
    ];
  } finally {
    await ours.stop();
    await recording.stop();
    await model.stop();
    rmSync(folder, { recursive: true, force: true });
  }
}

async function createInstance(
  ours: Server,
  headers: Record<string, string>,
  base_url: string,
): Promise<void> {
  const config = { base_url, model: "m", allow_private: true };
  const body = JSON.stringify({ id: "local", plugin: "llm-openai", config });
  const response = await fetch(`${ours.url}/api/llm-providers`, { method: "POST", headers, body });
  if (!response.ok) throw new Error(`the instance was not created: ${await response.text()}`);
}

/** Milliseconds from the request to the first chunk, one call after another. */
async function measureFirstChunks(target: Target, calls: number): Promise<number[]> {
  const times: number[] = [];
  for (let call = 0; call < calls; call++) {
    const from = performance.now();
    const response = await requestStream(target, 2, 0);
    let first = 0;
    for await (const _ of response.body!) first ||= performance.now() - from;
    times.push(first);
  }
  return times;
}

/** Milliseconds to write 4 kB and wait for the disk that holds the gateway's home. */
function measureDiskSyncs(): number[] {
  const folder = mkdtempSync(join(tmpdir(), "backplane-bench-sync-"));
  const file = openSync(join(folder, "file"), "w");
  const block = Buffer.alloc(4_096);
  const times = Array.from({ length: CALLS }, () => {
    const from = performance.now();
    writeSync(file, block);
    fdatasyncSync(file);
    return performance.now() - from;
  });
  closeSync(file);
  rmSync(folder, { recursive: true, force: true });
  return times;
}

/** The number of streams that delivered every chunk in order and ended. */
async function countCompleteStreams(target: Target): Promise<number> {
  const expected = Array.from({ length: CHUNKS }, (_, n) => `${n} `).join("");
  const streams = Array.from({ length: STREAMS }, async () => {
    const text = await (await requestStream(target, CHUNKS, 20)).text();
    const events = text.split("\n\n").filter((event) => event.startsWith("data: {"));
    const chunks = events.map((event) => {
      const { choices } = JSON.parse(event.slice(6)) as { choices: { delta: { content?: string } }[] };
      return choices[0]?.delta.content ?? "";
    });
    return chunks.join("") === expected && text.endsWith("data: [DONE]\n\n");
  });
  return (await Promise.all(streams)).filter(Boolean).length;
}

async function requestStream(
  { url, headers, model }: Target,
  chunks: number,
  pause_ms: number,
): Promise<Response> {
  const content = JSON.stringify({ chunks, pause_ms });
  const body = JSON.stringify({ model, stream: true, messages: [{ role: "user", content }] });
  const response = await fetch(url, { method: "POST", headers, body });
  if (response.status !== 200)
    throw new Error(`${url} returned HTTP ${response.status}: ${await response.text()}`);
  return response;
}
