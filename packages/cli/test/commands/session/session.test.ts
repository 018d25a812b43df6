/** `session` commands against a real gateway with the offline model. */
import type { Chain, Compaction, Entry, Pin, Run, Session } from "@backplane/contract";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { verifies } from "../../../../../test/support/verifies.ts";
import { EXIT } from "../../../src/index.ts";
import { startTestGateway, type TestGateway } from "../../support/gateway.ts";
import { waitForOutput } from "../../support/wait-for-output.ts";

let gateway: TestGateway;
beforeAll(async () => {
  gateway = await startTestGateway();
});
afterAll(() => gateway.close());

const say = (id: string, ...lines: string[]) =>
  gateway.backplane(["session", "chat", id, ...lines.flatMap((line) => ["-m", line]), "--quiet"]);

interface ShownSession {
  session: Session;
  entries: Entry[];
}

describe("show", () => {
  test("shows a conversation; with --json the session and its entries", async () => {
    await say("talk", "hello", '/tool absent {"a":1}\n/then\n/say sorry\u001b[31m');
    const { out, exit } = await gateway.backplane(["session", "show", "talk"]);
    expect(exit).toBe(EXIT.ok);
    expect(out).toMatch(/session: +talk\n/);
    const lines = out.slice(out.indexOf("──"));
    expect(lines).toBe(
      [
        "── start of the conversation ──",
        "you: hello",
        "assistant: echo: hello",
        'you: /tool absent {"a":1}',
        "  /then",
        "  /say sorry",
        '  → absent {"a":1}',
        "  ⊘ absent: not_found: there is no tool absent",
        "assistant: sorry",
        "",
      ].join("\n"),
    );
    const { session, entries } = await gateway.json<ShownSession>(["session", "show", "talk"]);
    expect(session.id).toBe("talk");
    const messages = entries.filter(({ kind }) => kind === "message").map(({ payload }) => payload.role);
    expect(messages).toEqual(["user", "assistant", "user", "assistant"]);
    // Best-effort entries may still follow the answer.
    const later = await gateway.json<ShownSession>([
      "session",
      "show",
      "talk",
      "--since",
      String(entries[2]!.id),
    ]);
    expect(later.entries.slice(0, entries.length - 3)).toEqual(entries.slice(3));
    const raw = await gateway.backplane(["session", "show", "talk", "--entries"]);
    const raw_lines = raw.out.trimEnd().split("\n");
    expect(raw_lines.length).toBeGreaterThanOrEqual(entries.length);
    expect(raw_lines[0]).toMatch(/^1 \S+ anchor \{/);
  });

  test("reports a missing session with an error code", async () => {
    for (const name of ["show", "replay", "reset", "compact", "undo", "interrupt", "fork", "pins", "loss"]) {
      const { exit, err } = await gateway.backplane(["session", name, "nowhere", "--yes"]);
      expect({ name, exit, code: err.slice(0, 24) }).toEqual({
        name,
        exit: EXIT.failed,
        code: "error[session.not_found]",
      });
    }
  });
});

test("lists the sessions of a workspace, and limits the page with --limit", async () => {
  await gateway.backplane(["session", "chat", "else", "-m", "x", "--workspace", "other"]);
  const page = await gateway.json<{ items: Session[] }>(["session", "list", "--workspace", "other"]);
  expect(page.items.map((item) => item.id)).toEqual(["else"]);
  const limited = await gateway.json<{ items: Session[]; next: string }>(["session", "list", "--limit", "1"]);
  expect(limited.items).toHaveLength(1);
  expect((await gateway.backplane(["session", "list"])).out).toMatch(/^ID +TITLE +WORKSPACE +ENTRIES/);
  expect((await gateway.backplane(["session", "show", "else"])).exit).toBe(EXIT.failed);
});

test("sets and removes metadata such as the title", async () => {
  await gateway.backplane(["session", "chat", "noted", "-m", "x"]);
  const set = (...pairs: string[]) => gateway.backplane(["session", "set", "noted", ...pairs]);
  expect((await set("title=Order 4711", "priority=2", "strategy=react")).exit).toBe(EXIT.ok);
  expect((await gateway.backplane(["session", "list"])).out).toMatch(/noted +Order 4711 /);
  expect((await set("priority=")).exit).toBe(EXIT.ok);
  const { items } = await gateway.json<{ items: Session[] }>(["session", "list"]);
  expect(items.find(({ id }) => id === "noted")?.metadata).toEqual({
    title: "Order 4711",
    strategy: "react",
  });
  expect((await set("nonsense")).exit).toBe(EXIT.usage);
});

describe("replay", () => {
  test("prints the tape entry by entry", async () => {
    await say("tape", "one");
    const { entries } = await gateway.json<ShownSession>(["session", "show", "tape"]);
    const { out } = await gateway.backplane(["session", "replay", "tape", "--json", "--since", "1"]);
    const lines = out
      .trimEnd()
      .split("\n")
      .map((line) => JSON.parse(line) as Entry);
    expect(lines.slice(0, entries.length - 1)).toEqual(entries.slice(1));
  });

  test("--follow prints new events, each once, until Ctrl-C", async () => {
    const { io, ended } = gateway.begin(["session", "replay", "tape", "--follow", "--json"]);
    await waitForOutput(io.out, /session\.replay\.done/);
    await say("tape", "two");
    await waitForOutput(io.out, /assistant\.message\.done/);
    io.signal("SIGINT");
    expect((await ended).exit).toBe(EXIT.interrupted);
    const ids = io
      .out()
      .trimEnd()
      .split("\n")
      // The last line is the error document of the interruption.
      .slice(0, -1)
      .map((line) => (JSON.parse(line) as { entry_id: number | null }).entry_id)
      .filter((id) => id !== null);
    expect(ids).toEqual(ids.map((_, index) => index + 1));
    const text = gateway.begin(["session", "replay", "tape", "--follow"]);
    await waitForOutput(text.io.out, /you: two\n(.*\n)*assistant: echo: two/);
    text.io.signal("SIGINT");
    expect((await text.ended).exit).toBe(EXIT.interrupted);
  });
});

test("forks a session that shares the history, optionally up to an entry", async () => {
  await say("parent", "first", "second");
  const { entries } = await gateway.json<ShownSession>(["session", "show", "parent"]);
  const answer = entries.find((entry) => entry.payload.role === "assistant")!;
  const argv = ["session", "fork", "parent", "--at", String(answer.id), "--id", "child"];
  const child = await gateway.json<Session>(argv);
  expect(child).toMatchObject({ id: "child", parent_session_id: "parent" });
  await say("child", "third");
  const { out } = await gateway.backplane(["session", "show", "child"]);
  expect(out).toMatch(/you: first\n.*first\nyou: third\n/);
  expect(out).not.toContain("second");
  expect((await gateway.backplane(["session", "show", "parent"])).out).toMatch(/children: +child\n/);
  const plain = await gateway.backplane(["session", "fork", "parent"]);
  expect(plain.err).toContain(`backplane session chat ${plain.out.trim()}`);
});

verifies(
  "compactor.loss",
  "shows the entries that a compaction dropped with `compactions` and `loss`",
  async () => {
    await say("lossy", ...Array.from({ length: 6 }, (_, n) => `/say ${n} ${"lorem ipsum ".repeat(60)}`));
    const not_compacted = await gateway.backplane(["session", "loss", "lossy"]);
    expect(not_compacted.err).toContain("lossy has not been compacted");
    await gateway.backplane(["session", "pin", "lossy", "2"]);
    const compaction = await gateway.json<Compaction>([
      "session",
      "compact",
      "lossy",
      "--compactor",
      "model",
    ]);
    const listed = await gateway.backplane(["session", "compactions", "lossy"]);
    expect(listed.out).toContain(compaction.chain.id);
    const { out } = await gateway.backplane(["session", "loss", "lossy"]);
    expect(out).toMatch(/dropped: +\d+ \(\d+ tokens\)/);
    expect(out).toMatch(/\n2 +message +kept /);
    const session = await gateway.json<{ entries: object[] }>([
      "session",
      "loss",
      "lossy",
      "--chain",
      compaction.chain.id,
    ]);
    expect(session.entries).toHaveLength(compaction.loss!.kept + compaction.loss!.dropped);
  },
);

verifies("compactor.pins", "pins, lists and unpins an entry", async () => {
  await say("pinned", "/say keep me");
  expect((await gateway.backplane(["session", "pin", "pinned", "2"])).out).toContain("Pinned entry 2");
  const { items } = await gateway.json<{ items: Pin[] }>(["session", "pins", "pinned"]);
  expect(items.map(({ text }) => text)).toEqual(["/say keep me"]);
  const unpinned = await gateway.backplane(["session", "unpin", "pinned", "2"]);
  expect([unpinned.out.trim(), unpinned.exit]).toEqual(["Entry 2 of pinned is now unpinned", EXIT.ok]);
  expect((await gateway.backplane(["session", "pins", "pinned"])).out).toContain("No entries are pinned.");
  const refused = await gateway.backplane(["session", "pin", "pinned", "1"]);
  expect(refused.err).toContain("cannot be pinned");
});

test("marks a compaction, returns to the previous chain on `undo`, and asks for confirmation on `reset`", async () => {
  await say("long", ...Array.from({ length: 6 }, (_, n) => `${n} ${"words ".repeat(400)}`), "the last");
  await gateway.json(["provider", "set", "llm-echo", "context_window=10000"]);
  const compacted = await gateway.json<{ chain: Chain }>(["session", "compact", "long"]);
  const { out } = await gateway.backplane(["session", "show", "long"]);
  expect(out).toMatch(/── compacted \(\d+ → \d+ tokens\) ──/);
  // Entries that the compaction carried over are not printed twice.
  expect(out.match(/you: the last/g)).toHaveLength(1);
  await gateway.json(["provider", "set", "llm-echo", "context_window="]);
  const back = await gateway.json<Chain>(["session", "undo", "long"]);
  expect(back.id).toBe(compacted.chain.parent_chain_id);
  const again = await gateway.backplane(["session", "undo", "long"]);
  expect(again.err).toContain("there is nothing to undo");
  expect((await gateway.backplane(["session", "reset", "long"])).exit).toBe(EXIT.usage);
  const fresh = await gateway.json<Session>(["session", "reset", "long", "--yes"]);
  expect(fresh.head_chain_id).not.toBe(back.id);
});

test("ends a running turn on `interrupt`, and reports when none is running", async () => {
  const text = "/slow 500\n/say a b c d e f g h";
  const run = await gateway.json<Run>(["run", "start", "--session", "slow", "--input", text]);
  expect(await gateway.json(["session", "interrupt", "slow"])).toEqual({ interrupted: true });
  const waitForEnd = async (): Promise<Run> => {
    const latest = await gateway.json<Run>(["run", "show", run.id]);
    return latest.status === "running" ? await waitForEnd() : latest;
  };
  expect((await waitForEnd()).status).toBe("cancelled");
  const idle = await gateway.backplane(["session", "interrupt", "slow"]);
  expect(idle.out).toBe("No turn of slow was running\n");
});
