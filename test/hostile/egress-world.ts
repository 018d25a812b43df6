/**
 * A world to break out into. One server hears on every address of this machine, and PUBLIC stands for the internet:
 * a connection by any other address is a hit, and so is the word `evil` in what arrives at PUBLIC.
 */
import type { Socket } from "node:net";
import { networkInterfaces } from "node:os";
import {
  connectLine,
  openTestEgress,
  PUBLIC,
  TestClient,
  type TestEgress,
  type TestEgressOptions,
} from "../../packages/runner/test/support/egress.ts";
import { listen } from "../../packages/runner/test/support/loopback.ts";

/** What an attack uses, wherever its client is. */
export interface Attacker {
  port: number;
  send: (...words: (string | Uint8Array)[]) => TestClient;
  /** A tunnel that stands, then words through it. */
  tunnel: (host: string, ...words: (string | Uint8Array)[]) => Promise<TestClient>;
  /** As a client that took the first name of /etc/hosts, and port 80. */
  named: (...words: (string | Uint8Array)[]) => Promise<TestClient>;
}

export interface World extends Attacker {
  rig: TestEgress;
  /** Everything that must not have happened. */
  hits: string[];
  /** What PUBLIC was told, in one piece. */
  told: () => string;
}

export const ALLOWED = ["api.acme.test", "*.cdn.acme.test", "xn--bcher-kva.test"];

/** The server, and what it saw. */
export async function openOutside(): Promise<Pick<World, "port" | "hits" | "told">> {
  const hits: string[] = [];
  let told = "";
  const onSocket = (socket: Socket) => {
    const local = socket.localAddress!.replace(/^::ffff:/, "");
    if (local !== PUBLIC) hits.push(`a connection at ${local}`);
    let text = "";
    socket.on("data", (chunk: Buffer) => {
      text += chunk.toString("latin1");
      told += chunk.toString("latin1");
      if (/evil/i.test(text)) hits.push(`${local} was told ${JSON.stringify(text.slice(-80))}`);
      if (!text.endsWith("\r\n\r\n")) return;
      const there = text.includes("/redirect") ? `Location: http://127.0.0.1:${port}/evil\r\n` : "";
      socket.write(
        `HTTP/1.1 ${there === "" ? "200 OK" : "302 Found"}\r\n${there}Content-Length: 2\r\n\r\nok`,
      );
      text = "";
    });
    socket.on("end", () => socket.end());
  };
  const { port } = await listen(onSocket, "::");
  return { port, hits, told: () => told };
}

/** With its client on this side of the listeners. */
export async function openWorld(
  options: TestEgressOptions | ((port: number) => TestEgressOptions) = {},
): Promise<World> {
  const outside = await openOutside();
  const { port } = outside;
  const rig = await openTestEgress({
    domains: ALLOWED,
    ...(typeof options === "function" ? options(port) : options),
  });
  const attacker = attackerWith(
    port,
    () => new TestClient(rig.proxy),
    async () => {
      const { address } = rig.session.hosts[0]!;
      return new TestClient(await rig.behind("named", 80, address), address);
    },
  );
  return { ...outside, ...attacker, rig };
}

export function attackerWith(
  port: number,
  proxy: () => TestClient,
  named: () => Promise<TestClient>,
): Attacker {
  const send: Attacker["send"] = (...words) => proxy().send(...words);
  return {
    port,
    send,
    tunnel: async (host, ...words) => {
      const opened = send(connectLine(`${host}:${port}`));
      await opened.waitFor(/200 Connection established\r\n\r\n/);
      return opened.send(...words);
    },
    named: async (...words) => (await named()).send(...words),
  };
}

/** An address of this machine that is not loopback, as a name of the attacker's could have it. */
export function ownAddress(): string {
  const found = Object.values(networkInterfaces())
    .flatMap((list) => list ?? [])
    .find(({ internal, family }) => !internal && family === "IPv4");
  return found?.address ?? "127.0.0.1";
}
