/**
 * A gateway is killed fifty times in the middle of turns. Afterwards everything that it acknowledged is on the tape, the
 * hashes are valid, and every call on a tape has an outcome.
 */
import { resolve } from "node:path";
import { expect } from "vitest";
import { startTestGateway, type TestGateway } from "../../support/gateway/gateway.ts";
import { eventually } from "../../support/gateway/processes.ts";
import { verifies } from "../../support/verifies.ts";

const KILLS = 50;
const SESSIONS = 4;

interface Entry {
  id: number;
  kind: string;
  payload: {
    role?: string;
    content?: string;
    id?: string;
    tool_call_id?: string;
    name?: string;
    data?: { id?: string };
  };
}

verifies(
  ["tape.durable", "inv.effect-class"],
  "fifty kills in the middle of turns lose nothing that was acknowledged",
  async () => {
    let gateway = await startTestGateway();
    const { home } = gateway;
    try {
      await bindHello(gateway);
      const acknowledged = new Map<string, string[]>();
      for (let kill = 0; kill < KILLS; kill++) {
        const accepted_before = countTexts(acknowledged);
        const senders = Array.from({ length: SESSIONS }, (_, n) =>
          sendMessages(gateway, `s${n}`, kill, acknowledged),
        );
        // Kills between the first message and the last answer, a little later each time. A busy machine
        // needs longer for the first one.
        await eventually(() => countTexts(acknowledged) > accepted_before, 60_000, "a message was accepted");
        await new Promise((done) => setTimeout(done, (kill * 37) % 400));
        await gateway.kill9();
        await Promise.all(senders);
        gateway = await startTestGateway({ home });
      }
      expect(countTexts(acknowledged)).toBeGreaterThan(KILLS);
      for (const [session_id, texts] of acknowledged) {
        const tape = await readSettledTape(gateway, session_id);
        const on_tape = new Set(
          tape.flatMap(({ payload }) => (payload.role === "user" ? [payload.content] : [])),
        );
        expect(texts.filter((text) => !on_tape.has(text))).toEqual([]);
        expect(findDanglingCalls(tape)).toEqual([]);
        const { body } = await gateway.http<{ head_chain_id: string }>("GET", `/v1/sessions/${session_id}`);
        const verified = await gateway.http("GET", `/v1/chains/${body.head_chain_id}:verify`);
        expect(verified).toMatchObject({ status: 200, body: { valid: true } });
      }
      const running = await gateway.http<{ items: { status: string }[] }>("GET", "/v1/invocations?limit=100");
      expect(running.body.items.filter(({ status }) => status === "running")).toEqual([]);
    } finally {
      await gateway.dispose();
    }
  },
  600_000,
);

function countTexts(acknowledged: ReadonlyMap<string, string[]>): number {
  return [...acknowledged.values()].flat().length;
}

/** Sends messages until the gateway is killed, and records the acknowledged ones. */
async function sendMessages(
  gateway: TestGateway,
  session_id: string,
  kill: number,
  acknowledged: Map<string, string[]>,
): Promise<void> {
  for (let n = 0; ; n++) {
    const text = `/tool hello {"name": "k${kill} n${n}"}\n/tool hello {"name": "again"}`;
    try {
      const { status } = await gateway.http("POST", `/v1/sessions/${session_id}/messages`, { text });
      if (status !== 202) throw new Error(`HTTP ${status}`);
      acknowledged.set(session_id, [...(acknowledged.get(session_id) ?? []), text]);
    } catch {
      if (gateway.process.signalCode !== null || n > 200) return;
      await new Promise((done) => setTimeout(done, 10));
    }
  }
}

/** Waits for recovery, which gives every interrupted call an outcome. */
async function readSettledTape(gateway: TestGateway, session_id: string): Promise<Entry[]> {
  for (let tries = 0; ; tries++) {
    const tape: Entry[] = [];
    for (let after = 0; ; after = tape.at(-1)!.id) {
      const { body } = await gateway.http<{ items: Entry[] }>(
        "GET",
        `/v1/sessions/${session_id}/entries?after=${after}&limit=1000`,
      );
      tape.push(...body.items);
      if (body.items.length < 1000) break;
    }
    if (findDanglingCalls(tape).length === 0 || tries > 100) return tape;
    await new Promise((done) => setTimeout(done, 100));
  }
}

function findDanglingCalls(tape: readonly Entry[]): string[] {
  const ended = new Set(
    tape.flatMap(({ kind, payload }) => {
      if (kind === "tool_result") return [payload.tool_call_id];
      return kind === "event" && payload.name === "tool.error" ? [payload.data?.id] : [];
    }),
  );
  return tape.flatMap(({ kind, payload }) =>
    kind === "tool_call" && !ended.has(payload.id) ? [payload.id!] : [],
  );
}

async function bindHello(gateway: TestGateway): Promise<void> {
  const folder = resolve("examples/hello-tool");
  const installed = await gateway.cli("plugin", "install", folder, "--bind", "--class", "worker", "--json");
  if (installed.code !== 0) throw new Error(installed.stderr);
}
