/** Bytes per second through a tunnel of the egress proxy, compared with a direct connection. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { createServer } from "node:net";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { realTimeClock as clock } from "@backplane/test-kit/real-time-clock";
import { createEgress } from "../../../../packages/runner/src/egress/create-egress.ts";
import { createRow, type Row } from "../../measuring/row.ts";
import { median } from "../../measuring/statistics.ts";

const FILE = fileURLToPath(new URL("../../children/egress-peer.mjs", import.meta.url));
const SERVER_ADDRESS = "127.88.0.1";
/** Enough for a steady rate, and small enough to finish in seconds on a busy machine. */
const BYTES = 128 * 1024 * 1024;
const REPETITIONS = 7;
const TRANSFER_TIMEOUT_MS = 30_000;

export async function measureEgressThroughput(): Promise<Row[]> {
  const egress = createEgress({
    clock,
    limits: { bytes_in: Number.MAX_SAFE_INTEGER },
    forbidden: () => null,
    resolve: async () => [SERVER_ADDRESS],
  });
  const grant = { network: "egress" as const, allowed_domains: ["api.acme.test"], gateway_api_scopes: [] };
  const session = egress.open({ grant });
  const proxy = createServer();
  proxy.listen(0, "127.0.0.1");
  await once(proxy, "listening");
  session.attach(session.listeners[0]!, proxy);
  const server = startPeer("serve", SERVER_ADDRESS);
  const client = startPeer("fetch");
  try {
    const server_port = Number(await server.readLine());
    const { port } = proxy.address() as { port: number };
    const direct = { host: SERVER_ADDRESS, port: server_port, connect: null, bytes: BYTES };
    const tunnel = { host: "127.0.0.1", port, connect: `api.acme.test:${server_port}`, bytes: BYTES };
    const rates: Record<"direct" | "tunnel", number[]> = { direct: [], tunnel: [] };
    for (let repetition = 0; repetition <= REPETITIONS; repetition++) {
      for (const [route, transfer] of [["direct", direct] as const, ["tunnel", tunnel] as const]) {
        const ms = Number(await client.request(transfer));
        // The first round warms up.
        if (repetition > 0) rates[route].push(BYTES / 1024 / 1024 / (ms / 1000));
      }
    }
    if (session.counts().refused > 0) throw new Error(JSON.stringify(session.refusals()));
    return [
      createRow(
        "egress.throughput",
        "MiB/s, one tunnel",
        "higher",
        median(rates.tunnel),
        median(rates.direct),
      ),
    ];
  } finally {
    await session.close();
    await Promise.all([server.stop(), client.stop()]);
  }
}

function startPeer(...args: string[]) {
  const child: ChildProcess = spawn(process.execPath, [FILE, ...args], {
    stdio: ["pipe", "pipe", "inherit"],
  });
  const lines = createInterface({ input: child.stdout! })[Symbol.asyncIterator]();
  const readLine = async () => {
    const { value, done } = await lines.next();
    if (done) throw new Error(`${args[0]} exited`);
    return value;
  };
  return {
    readLine,
    request: async (transfer: object) => {
      child.stdin!.write(`${JSON.stringify(transfer)}\n`);
      const timeout = setTimeout(() => child.kill("SIGKILL"), TRANSFER_TIMEOUT_MS);
      try {
        return await readLine();
      } catch {
        throw new Error(
          `the transfer failed or took more than ${TRANSFER_TIMEOUT_MS} ms: ${JSON.stringify(transfer)}`,
        );
      } finally {
        clearTimeout(timeout);
      }
    },
    stop: async () => {
      if (child.exitCode !== null || child.signalCode !== null) return;
      const exited = once(child, "exit");
      child.kill("SIGKILL");
      await exited;
    },
  };
}
