/**
 * A world to break out into. One server hears on every address of this machine, and PUBLIC stands for the internet:
 * a connection by any other address is a hit, and so is the word `evil` in what arrives at PUBLIC.
 */
import type { Socket } from "node:net";
import { networkInterfaces } from "node:os";
import {
  connectLine,
  type EgressRig,
  openRig,
  PUBLIC,
  type RigOptions,
  Talk,
} from "../../packages/runner/test/egress/egress-rig.ts";
import { listen } from "../../packages/runner/test/egress/loopback.ts";

const ALLOWED = ["api.acme.test", "*.cdn.acme.test", "xn--bcher-kva.test"];

export interface World {
  port: number;
  rig: EgressRig;
  /** Everything that must not have happened. */
  hits: string[];
  /** What PUBLIC was told, in one piece. */
  told: () => string;
  talk: (...words: (string | Uint8Array)[]) => Talk;
  /** A tunnel that stands, then words through it. */
  tunnel: (host: string, ...words: (string | Uint8Array)[]) => Promise<Talk>;
}

export async function openWorld(options: RigOptions | ((port: number) => RigOptions) = {}): Promise<World> {
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
  const rig = await openRig({
    domains: ALLOWED,
    ...(typeof options === "function" ? options(port) : options),
  });
  const talk: World["talk"] = (...words) => new Talk(rig.proxy).say(...words);
  return {
    port,
    rig,
    hits,
    told: () => told,
    talk,
    tunnel: async (host, ...words) => {
      const opened = talk(connectLine(`${host}:${port}`));
      await opened.hear(/200 Connection established\r\n\r\n/);
      return opened.say(...words);
    },
  };
}

/** An address of this machine that is not loopback, as a name of the attacker's could have it. */
export function ownAddress(): string {
  const found = Object.values(networkInterfaces())
    .flatMap((list) => list ?? [])
    .find(({ internal, family }) => !internal && family === "IPv4");
  return found?.address ?? "127.0.0.1";
}
