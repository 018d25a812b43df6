/** By which door a connection came in, and what it begins with: that decides who serves it. */

import { decide } from "../destinations/policy.ts";
import type { Passage } from "./connection.ts";
import type { Border } from "./egress-state.ts";
import type { GatewayDoor } from "./gateway-route.ts";
import { createHttpRelay, ESTABLISHED, type HttpRelay, say } from "./http-proxy.ts";
import { peek } from "./peek.ts";
import type { EgressListener, WayIn } from "./sandbox-network.ts";
import { answerSocks, readSocks } from "./socks.ts";
import { tunnel } from "./tunnel.ts";

const [SOCKS4, SOCKS5, TLS] = [4, 5, 22];

export function createReception(
  border: Border,
  way: WayIn,
  door: GatewayDoor | null,
): (passage: Passage, listener: EgressListener) => void {
  const names = new Map(way.hosts.map(({ address, name }) => [address, name]));
  const relay: HttpRelay = createHttpRelay(border.limits, door, (passage, target) => {
    const answers = {
      connected: () => void passage.client.write(ESTABLISHED),
      failed: (why: "unreachable" | "limit") =>
        say(
          passage,
          why === "limit" ? "429 Too Many Requests" : "502 Bad Gateway",
          `${target.host}: ${why}\n`,
        ),
    };
    return tunnel(passage, target, answers, (host) => relay.serve(passage, { kind: "host", target: host }));
  });

  async function hearProxy(passage: Passage): Promise<void> {
    const first = await peek(passage.client, 1, (bytes) => ({ value: bytes[0]!, used: 0 }));
    if (first === null || passage.ended) return passage.end();
    if (first === SOCKS5) return hearSocks(passage);
    if (first === SOCKS4 || first === TLS) {
      passage.refuse("protocol.refused", first === TLS ? "TLS to the proxy" : "SOCKS4");
      return passage.end();
    }
    relay.serve(passage, { kind: "proxy" });
  }

  async function hearSocks(passage: Passage): Promise<void> {
    const asked = await readSocks(passage);
    if (asked === null || passage.ended) return;
    await border.opened();
    const verdict = await decide(border.policy, asked);
    if (verdict.kind === "refused") {
      passage.refuse(verdict.reason, verdict.detail);
      return answerSocks(passage, "forbidden");
    }
    if (passage.ended) return;
    if (verdict.kind === "unknown") return answerSocks(passage, "unreachable");
    if (verdict.kind === "gateway") {
      answerSocks(passage, "granted");
      return relay.serve(passage, { kind: "gateway" });
    }
    const answers = {
      connected: () => answerSocks(passage, "granted"),
      failed: (why: "unreachable" | "limit") =>
        answerSocks(passage, why === "limit" ? "failed" : "unreachable"),
    };
    await tunnel(passage, verdict.target, answers, (target) =>
      relay.serve(passage, { kind: "host", target }),
    );
  }

  /** The client took the name from /etc/hosts, so the address it dialled says which. */
  async function hearNamed(passage: Passage, port: number): Promise<void> {
    const address = passage.client.localAddress ?? "";
    passage.asked = { host: names.get(address) ?? address, port };
    await border.opened();
    const verdict = await decide(border.policy, passage.asked);
    if (verdict.kind === "refused") passage.refuse(verdict.reason, verdict.detail);
    if (passage.ended) return;
    if (verdict.kind !== "target") return passage.end();
    const answers = { connected: () => {}, failed: () => passage.end() };
    await tunnel(passage, verdict.target, answers, (target) =>
      relay.serve(passage, { kind: "host", target }),
    );
  }

  return (passage, { role, port }) => {
    passage.client.pause();
    if (role === "proxy") passage.watch(hearProxy(passage));
    else if (role === "named") passage.watch(hearNamed(passage, port));
    else relay.serve(passage, { kind: "gateway" });
  };
}
