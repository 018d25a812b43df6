/**
 * The upstream server that egress attacks try to reach, and the client operations of the attacks. The server listens on
 * every address of this machine, and PUBLIC stands for the internet. A connection to any other address is a hit, and so
 * is the word `evil` in data sent to PUBLIC.
 */
import type { Socket } from "node:net";
import { networkInterfaces } from "node:os";
import {
  connectLine,
  createTestEgress,
  PUBLIC,
  TestClient,
  type TestEgress,
  type TestEgressOptions,
} from "../../packages/runner/test/support/egress.ts";
import { listen } from "../../packages/runner/test/support/loopback.ts";

/** The client operations of an attack, inside or outside a sandbox. */
export interface Attacker {
  port: number;
  send: (...payload: (string | Uint8Array)[]) => TestClient;
  /** Opens a tunnel and sends the payload through it. */
  tunnel: (host: string, ...payload: (string | Uint8Array)[]) => Promise<TestClient>;
  /** Sends the payload to the first address of /etc/hosts, at port 80. */
  sendByHostsFile: (...payload: (string | Uint8Array)[]) => Promise<TestClient>;
}

export interface EgressTest extends Attacker {
  egress: TestEgress;
  /** Connections and data that must not have arrived. */
  hits: string[];
  /** All data that the server received. */
  receivedText: () => string;
}

export const ALLOWED = ["api.acme.test", "*.cdn.acme.test", "xn--bcher-kva.test"];

export async function startUpstream(): Promise<Pick<EgressTest, "port" | "hits" | "receivedText">> {
  const hits: string[] = [];
  let received_text = "";
  const onSocket = (socket: Socket) => {
    const local = socket.localAddress!.replace(/^::ffff:/, "");
    if (local !== PUBLIC) hits.push(`a connection at ${local}`);
    let text = "";
    socket.on("data", (chunk: Buffer) => {
      text += chunk.toString("latin1");
      received_text += chunk.toString("latin1");
      if (/evil/i.test(text)) hits.push(`${local} received ${JSON.stringify(text.slice(-80))}`);
      if (!text.endsWith("\r\n\r\n")) return;
      const redirect = text.includes("/redirect") ? `Location: http://127.0.0.1:${port}/evil\r\n` : "";
      socket.write(
        `HTTP/1.1 ${redirect === "" ? "200 OK" : "302 Found"}\r\n${redirect}Content-Length: 2\r\n\r\nok`,
      );
      text = "";
    });
    socket.on("end", () => socket.end());
  };
  const { port } = await listen(onSocket, "::");
  return { port, hits, receivedText: () => received_text };
}

/** Opens egress whose client runs in this process instead of a sandbox. */
export async function openEgressTest(
  options: TestEgressOptions | ((port: number) => TestEgressOptions) = {},
): Promise<EgressTest> {
  const upstream = await startUpstream();
  const { port } = upstream;
  const egress = await createTestEgress({
    domains: ALLOWED,
    ...(typeof options === "function" ? options(port) : options),
  });
  const attacker = createAttacker(
    port,
    () => new TestClient(egress.proxy),
    async () => {
      const { address } = egress.session.hosts[0]!;
      return new TestClient(await egress.openListener("named", 80, address), address);
    },
  );
  return { ...upstream, ...attacker, egress };
}

export function createAttacker(
  port: number,
  connectToProxy: () => TestClient,
  connectByHostsFile: () => Promise<TestClient>,
): Attacker {
  const send: Attacker["send"] = (...payload) => connectToProxy().send(...payload);
  return {
    port,
    send,
    tunnel: async (host, ...payload) => {
      const opened = send(connectLine(`${host}:${port}`));
      await opened.waitFor(/200 Connection established\r\n\r\n/);
      return opened.send(...payload);
    },
    sendByHostsFile: async (...payload) => (await connectByHostsFile()).send(...payload),
  };
}

/** An address of this machine that is not loopback, to which a name of the attacker could resolve. */
export function ownAddress(): string {
  const addresses = Object.values(networkInterfaces())
    .flatMap((list) => list ?? [])
    .find(({ internal, family }) => !internal && family === "IPv4");
  return addresses?.address ?? "127.0.0.1";
}
