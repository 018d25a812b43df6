/**
 * An egress session on loopback. PUBLIC represents the public internet; the real address rule applies to all other
 * addresses.
 */
import { connect, type Socket } from "node:net";
import type { Clock } from "@backplane/ports";
import { realTimeClock } from "@backplane/test-kit/real-time-clock";
import { onTestFinished } from "vitest";
import { createEgress, type EgressSession } from "../../src/egress/create-egress.ts";
import { publicOnly } from "../../src/egress/destinations/address.ts";
import type { Refusal } from "../../src/egress/destinations/refusals.ts";
import type { EgressLimits } from "../../src/egress/proxy/limits.ts";
import type { EgressListener } from "../../src/egress/proxy/sandbox-network.ts";
import { listen } from "./loopback.ts";

export const PUBLIC = "127.88.0.1";

export interface TestEgressOptions {
  domains?: readonly string[];
  network?: "none" | "egress";
  scopes?: readonly "sessions:read"[];
  gateway?: { base_url: string; certificate?: string };
  limits?: Partial<EgressLimits>;
  clock?: Clock;
  operator_allows?: readonly string[];
  /** The addresses of names; other names resolve to PUBLIC. */
  names?: Record<string, readonly string[]>;
  resolve?: (name: string) => Promise<string[]>;
  refused?: (refusal: Refusal) => void;
}

export interface TestEgress {
  session: EgressSession;
  /** Resolved names, in order. */
  resolved: string[];
  /** Opens a port of this machine that the session serves as this listener. */
  openListener: (role: EgressListener["role"], port?: number, address?: string) => Promise<number>;
  proxy: number;
}

export async function createTestEgress(options: TestEgressOptions = {}): Promise<TestEgress> {
  const resolved: string[] = [];
  const egress = createEgress({
    clock: options.clock ?? realTimeClock,
    limits: options.limits ?? {},
    operator_allows: options.operator_allows ?? [],
    gateway: () => (options.gateway === undefined ? null : { certificate: null, ...options.gateway }),
    forbidden: (address) => (address === PUBLIC ? null : publicOnly(address)),
    resolve: async (name) => {
      resolved.push(name);
      return (await options.resolve?.(name)) ?? [...(options.names?.[name] ?? [PUBLIC])];
    },
  });
  const session = egress.open({
    grant: {
      network: options.network ?? "egress",
      allowed_domains: [...(options.domains ?? [])],
      gateway_api_scopes: [...(options.scopes ?? [])],
    },
    ...(options.refused === undefined ? {} : { refused: options.refused }),
  });
  onTestFinished(() => session.close());
  const openListener: TestEgress["openListener"] = async (role, port, address = "127.0.0.1") => {
    const listener = session.listeners.find(
      (listener) => listener.role === role && (port === undefined || listener.port === port),
    );
    if (listener === undefined) throw new Error(`no listener ${role} ${port ?? ""}`);
    const { server, port: real } = await listen(() => {}, address);
    session.attach(listener, server);
    return real;
  };
  return {
    session,
    resolved,
    openListener,
    proxy: options.network === "none" ? 0 : await openListener("proxy"),
  };
}

/** A client to exchange bytes with step by step. Received bytes stay readable after its end. */
export class TestClient {
  readonly socket: Socket;
  received = Buffer.alloc(0);
  readonly ended: Promise<void>;
  #waiting: (() => void)[] = [];

  /** Connects to a port of this machine, or uses an existing socket. */
  constructor(target: number | Socket, host = "127.0.0.1") {
    this.socket = typeof target === "number" ? connect({ port: target, host, allowHalfOpen: true }) : target;
    this.socket.on("error", () => {});
    this.socket.on("data", (chunk: Buffer) => {
      this.received = Buffer.concat([this.received, chunk]);
      for (const wake of this.#waiting.splice(0)) wake();
    });
    this.ended = new Promise((resolve) => {
      const done = () => {
        this.socket.end();
        resolve();
        for (const wake of this.#waiting.splice(0)) wake();
      };
      this.socket.once("end", done).once("close", done);
    });
    onTestFinished(() => void this.socket.destroy());
  }

  send(...payload: (string | Uint8Array)[]): this {
    for (const part of payload)
      this.socket.write(typeof part === "string" ? Buffer.from(part, "latin1") : part);
    return this;
  }

  get text(): string {
    return this.received.toString("latin1");
  }

  /** Waits until the pattern was received. Throws if the peer closes first. */
  async waitFor(pattern: RegExp | string): Promise<string> {
    let has_ended = false;
    void this.ended.then(() => {
      has_ended = true;
    });
    const matches = () =>
      typeof pattern === "string" ? this.text.includes(pattern) : pattern.test(this.text);
    while (!matches()) {
      if (has_ended) throw new Error(`ended after ${JSON.stringify(this.text)}`);
      await new Promise<void>((resolve) => this.#waiting.push(resolve));
    }
    return this.text;
  }

  /** Reads to the end. */
  async readToEnd(): Promise<string> {
    await this.ended;
    return this.text;
  }
}

export function connectLine(authority: string): string {
  return `CONNECT ${authority} HTTP/1.1\r\nHost: ${authority}\r\n\r\n`;
}

/** The answer to a greeting without credentials and to a granted request. */
export const SOCKS_GRANTED = "\u0005\u0000\u0005\u0000";

export function socksConnect(host: string, port: number): Buffer {
  const name = Buffer.from(host, "latin1");
  return Buffer.concat([
    Buffer.from([5, 1, 0, 5, 1, 0, 3, name.length]),
    name,
    Buffer.from([port >> 8, port & 255]),
  ]);
}
