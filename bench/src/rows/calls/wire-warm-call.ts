/** A warm call through the wire module, compared with raw processes and published protocols. */
import { spawn } from "node:child_process";
import { fileURLToPath } from "node:url";
import { stdioTransport, VaiHost } from "@backplane/wire";
import { createRow, type Row } from "../../measuring/row.ts";
import {
  type EchoPeer,
  mcpV1,
  mcpV2,
  rawContentLength,
  rawNdjson,
  vscodeJsonrpc,
} from "../../peers/echo-peer.ts";
import { measureLatency, measureRate } from "./measure-calls.ts";

/** The wire module on both sides, without any other module. */
const wirePeer: EchoPeer = {
  key: "ours",
  async open() {
    const file = fileURLToPath(new URL("../../children/wire-echo.mjs", import.meta.url));
    const child = spawn(process.execPath, [file], { stdio: ["pipe", "pipe", "inherit"] });
    const host = new VaiHost({
      transport: stdioTransport(child.stdout!, child.stdin!),
      identity: { package_id: "bench/echo", version: "1.0.0" },
      host: { name: "bench", version: "1.0.0" },
      onViolation: () => undefined,
      onFailure: () => undefined,
    });
    await host.hello();
    let next = 0;
    const ignore = () => undefined;
    return {
      async call(text) {
        const reply = await host.request(
          `req_${next++}`,
          "tool.invoke",
          { export_id: "echo", context: {}, input: { text } },
          ignore,
        );
        if (!reply.ok) throw new Error(reply.error.message);
        return (reply.body.result as { text: string }).text;
      },
      async close() {
        const exited = new Promise((resolve) => child.once("exit", resolve));
        child.kill("SIGKILL");
        await exited;
      },
    };
  },
};

export const measureWireWarmCall = () => measureCallRows("wire.warm-call", wirePeer, rawContentLength);

/**
 * The rows of every warm-call benchmark: calls/s, CPU, p50, p99, 100 kB. `limit` is a raw child process with the same
 * framing as ours; for 100 kB the fastest peer is the limit. The smallest message (`raw-content-length`) is one of the
 * peers.
 */
export async function measureCallRows(name: string, ours: EchoPeer, limit: EchoPeer): Promise<Row[]> {
  const small = "x".repeat(1000);
  const large = "x".repeat(100_000);
  const peers = [...new Set([ours, limit, rawContentLength, rawNdjson, mcpV2, mcpV1, vscodeJsonrpc])];
  const rate = await measureRate(peers, { text: small, in_flight: 64, calls: 20_000, repetitions: 5 });
  const latency = await measureLatency([ours, limit, mcpV2], {
    text: small,
    in_flight: 1,
    calls: 1_000,
    repetitions: 5,
  });
  const large_calls = await measureRate([ours, rawContentLength, rawNdjson, vscodeJsonrpc], {
    text: large,
    in_flight: 16,
    calls: 1_000,
    repetitions: 5,
  });
  const peerFigures = (pick: (figures: { rate: number; cpu_us: number }) => number, from = rate) =>
    Object.fromEntries(
      [...from].filter(([key]) => key !== "ours").map(([key, figures]) => [key, pick(figures)]),
    );
  const our_figures = rate.get("ours")!;
  const raw = rate.get(limit.key)!;
  const best_large_rate = Math.max(
    ...[...large_calls].filter(([key]) => key !== "ours").map(([, figures]) => figures.rate),
  );
  return [
    createRow(
      name,
      "calls/s, 1 kB, 64 in flight",
      "higher",
      our_figures.rate,
      raw.rate,
      peerFigures((f) => f.rate),
    ),
    createRow(
      `${name}.cpu`,
      "host µs/call",
      "lower",
      our_figures.cpu_us,
      raw.cpu_us,
      peerFigures((f) => f.cpu_us),
    ),
    createRow(
      `${name}.p50`,
      "ms, sequential",
      "lower",
      latency.get("ours")!.p50,
      latency.get(limit.key)!.p50,
      {
        "mcp-2.4.0": latency.get("mcp-2.4.0")!.p50,
      },
    ),
    createRow(
      `${name}.p99`,
      "ms, sequential",
      "lower",
      latency.get("ours")!.p99,
      latency.get(limit.key)!.p99,
      {
        "mcp-2.4.0": latency.get("mcp-2.4.0")!.p99,
      },
    ),
    createRow(
      `${name}.100k`,
      "calls/s, 100 kB, 16 in flight",
      "higher",
      large_calls.get("ours")!.rate,
      best_large_rate,
      peerFigures((f) => f.rate, large_calls),
    ),
  ];
}
