import { type Approval, BackplaneError, type Chain, type Entry, type Invocation } from "@backplane/contract";
import { expect, test, vi } from "vitest";
import { createOutbox } from "../src/api/session-outbox.ts";
import { addUpdate, type LiveTurn } from "../src/api/session-stream.ts";
import { attachCalls } from "../src/pages/sessions/attach-calls.ts";
import {
  attachmentsProblem,
  fileOf,
  MAX_ATTACHMENTS,
  readAttachment,
  scaledSize,
  toBase64,
} from "../src/pages/sessions/attachments.ts";
import { buildTranscript, type ToolItem } from "../src/pages/sessions/build-transcript.ts";
import { compactionStates, isSetAside } from "../src/pages/sessions/compaction-state.ts";
import { parseMarkdown, parseSpans, safeHref } from "../src/pages/sessions/parse-markdown.ts";
import { matchesSession, newSessionId, titleFrom } from "../src/pages/sessions/session-text.ts";
import { groupOpenApprovals, rowKey } from "../src/pages/sessions/transcript-rows.ts";

const date = (second: number) => `2026-01-01T00:00:${String(second).padStart(2, "0")}.000Z`;
const entry = (id: number, kind: Entry["kind"], payload: Entry["payload"], second = id): Entry => ({
  id,
  kind,
  payload,
  meta: {},
  date: date(second),
});
const call = (id: number, name: string, args: object, second = id) =>
  entry(id, "tool_call", { id: `c${id}`, name, args } as never, second);
const approval = (id: string, tool: string, input: object, second: number, more: object = {}) =>
  ({
    id,
    tool,
    input,
    requested_at: date(second),
    replaces: null,
    digest: `${tool} ${JSON.stringify(input)}`,
    invocation_id: `inv_${id}`,
    status: "pending",
    ...more,
  }) as unknown as Approval;

test("parses the blocks of Markdown, including one that is not complete yet", () => {
  expect(
    parseMarkdown("# A\ntext\n\n- one\n- two\n  - deep\n1. first\n```ts\nlet x\n```\n---\n> said"),
  ).toEqual([
    { type: "heading", level: 1, spans: [{ type: "text", text: "A" }] },
    { type: "paragraph", spans: [{ type: "text", text: "text" }] },
    {
      type: "list",
      start: null,
      items: [
        { checked: null, blocks: [{ type: "paragraph", spans: [{ type: "text", text: "one" }] }] },
        {
          checked: null,
          blocks: [
            { type: "paragraph", spans: [{ type: "text", text: "two" }] },
            {
              type: "list",
              start: null,
              items: [
                { checked: null, blocks: [{ type: "paragraph", spans: [{ type: "text", text: "deep" }] }] },
              ],
            },
          ],
        },
      ],
    },
    {
      type: "list",
      start: 1,
      items: [{ checked: null, blocks: [{ type: "paragraph", spans: [{ type: "text", text: "first" }] }] }],
    },
    { type: "code", language: "ts", text: "let x" },
    { type: "rule" },
    { type: "quote", blocks: [{ type: "paragraph", spans: [{ type: "text", text: "said" }] }] },
  ]);
  expect(parseMarkdown("```js\nunfinished")).toEqual([{ type: "code", language: "js", text: "unfinished" }]);
  const [intro, table] = parseMarkdown("intro\n| a | b |\n|:-:|--:|\n| x \\| y | 2 |");
  expect(intro!.type).toBe("paragraph");
  expect(table).toMatchObject({ type: "table", align: ["center", "right"] });
  expect(table).toMatchObject({ rows: [[[{ type: "text", text: "x | y" }], [{ type: "text", text: "2" }]]] });
  expect(parseMarkdown("- [x] done\n- [ ] open")).toMatchObject([
    { items: [{ checked: true }, { checked: false }] },
  ]);
});

test("keeps HTML and unsafe links as text, and turns images into links", () => {
  expect(parseSpans("<b>x</b> [y](javascript:alert(1)) ![z](https://e.example/z.png)")).toEqual([
    { type: "text", text: "<b>x</b> [y](javascript:alert(1)) " },
    { type: "link", href: "https://e.example/z.png", spans: [{ type: "text", text: "z" }] },
  ]);
  expect(parseSpans("**a *b*** `c*d*` snake_case_name \\*e\\*")).toEqual([
    {
      type: "strong",
      spans: [
        { type: "text", text: "a " },
        { type: "emphasis", spans: [{ type: "text", text: "b" }] },
      ],
    },
    { type: "text", text: " " },
    { type: "code", text: "c*d*" },
    { type: "text", text: " snake_case_name *e*" },
  ]);
  for (const target of ["javascript:alert(1)", "data:text/html,x", "//evil.example", "vbscript:x"])
    expect(safeHref(target)).toBeNull();
  expect(safeHref("/docs/errors")).toBe("/docs/errors");
});

test("parses hostile text in bounded time and depth", () => {
  const started = performance.now();
  parseMarkdown(">".repeat(10_000));
  parseMarkdown("**a ".repeat(20_000));
  parseMarkdown("[".repeat(20_000));
  parseMarkdown(`${"  ".repeat(2_000)}- deep\n`.repeat(50));
  expect(performance.now() - started).toBeLessThan(5_000);
});

test("attaches approvals and invocations to their calls, and returns the approvals without a call", () => {
  const items = buildTranscript([
    call(1, "pay", { to: "a", sum: 1 }),
    entry(2, "tool_result", { tool_call_id: "c1", ok: true }),
    call(5, "pay", { sum: 1, to: "a" }),
    call(6, "read", {}),
  ]);
  const [first, second, third] = items as ToolItem[];
  const others = attachCalls(
    items,
    [
      approval("late", "pay", { to: "a", sum: 1 }, 5),
      approval("early", "pay", { to: "a", sum: 1 }, 1, { status: "approved" }),
      approval("other", "write", {}, 6),
    ],
    [
      { id: "inv_early", export_id: "pay", input: { to: "a", sum: 1 }, created_at: date(1) },
      { id: "inv_read", export_id: "read", input: {}, created_at: date(6) },
    ] as unknown as Invocation[],
  );
  expect(first!.approval?.id).toBe("early");
  expect(first!.invocation?.id).toBe("inv_early");
  expect(second!.approval?.id).toBe("late");
  expect(third!.invocation?.id).toBe("inv_read");
  expect(others.map(({ id }) => id)).toEqual(["other"]);
  attachCalls(items, [approval("changed", "pay", { to: "b" }, 7, { replaces: "late" })], []);
  expect(second!.approval?.id).toBe("changed");
});

test("gives identical calls within one second their own approvals and records", () => {
  const items = buildTranscript([1, 2, 3].map((id) => call(id, "pay", {}, 1)));
  attachCalls(
    items,
    [
      approval("a", "pay", {}, 1, { status: "approved" }),
      approval("b", "pay", {}, 1, { status: "approved", requested_at: "2026-01-01T00:00:01.100Z" }),
      approval("c", "pay", {}, 1, { requested_at: "2026-01-01T00:00:01.200Z" }),
      approval("d", "pay", { to: "d" }, 2, { replaces: "c" }),
      approval("e", "pay", { to: "e" }, 3, { replaces: "d" }),
    ],
    [],
  );
  expect(items.map((item) => (item as ToolItem).approval?.id)).toEqual(["a", "b", "e"]);
  const reads = buildTranscript([call(1, "read", {}, 1), call(2, "read", {}, 1)]);
  const read = (id: string, at: string) => ({ id, export_id: "read", input: {}, created_at: at });
  const records = [read("first", date(1)), read("second", "2026-01-01T00:00:01.100Z")];
  attachCalls(reads, [], records as unknown as Invocation[]);
  expect(reads.map((item) => (item as ToolItem).invocation?.id)).toEqual(["first", "second"]);
});

test("groups identical open approvals under the first of them", () => {
  const items = buildTranscript([call(1, "pay", {}), call(5, "pay", {}), call(6, "read", {})]);
  attachCalls(
    items,
    [
      approval("a", "pay", {}, 1),
      approval("b", "pay", {}, 5),
      approval("c", "read", {}, 6, { status: "approved" }),
    ],
    [],
  );
  const groups = [...groupOpenApprovals(items)].map(([id, all]) => [id, all.map((each) => each.id)]);
  expect(groups).toEqual([["a", ["a", "b"]]]);
  expect(items.map(rowKey)).toEqual(["tool c1", "tool c5", "tool c6"]);
});

test("leaves out a result whose call is not loaded, and the entries that a compaction repeats", () => {
  const entries = [
    entry(8, "tool_result", { tool_call_id: "c1", ok: true }),
    entry(9, "anchor", { name: "compaction", state: { kind: "compaction", summary: "s" } }),
    entry(10, "message", { role: "user", content: "repeated" }, 4),
    entry(11, "message", { role: "user", content: "new" }),
  ];
  const shown = (partial: boolean) =>
    buildTranscript(entries, [], [], [], partial).map((item) => ("text" in item ? item.text : item.type));
  expect(shown(true)).toEqual(["Earlier messages were summarized", "new"]);
  expect(shown(false)).toEqual(["tool", "Earlier messages were summarized", "new"]);
});

test("marks an undone compaction and its entries as set aside, and the current one as in effect", () => {
  const chain = (id: string, fields: object) =>
    ({ id, origin: "compaction", parent_chain_id: "root", fork_entry_id: 10, ...fields }) as unknown as Chain;
  const chains = [
    chain("root", { origin: "start", parent_chain_id: null, last_entry_id: 30, created_at: date(1) }),
    chain("undone", { last_entry_id: 15, created_at: date(11) }),
    chain("current", { fork_entry_id: 10, last_entry_id: 40, created_at: date(31) }),
  ];
  const anchor = (id: number) =>
    entry(id, "anchor", { name: "compaction", state: { kind: "compaction", summary: "" } });
  const items = buildTranscript([anchor(11), anchor(31)]);
  const states = compactionStates(items, chains, "current");
  expect(states.get(11)).toMatchObject({ chain_id: "undone", in_effect: false, undoable: false });
  expect(states.get(31)).toMatchObject({ chain_id: "current", in_effect: true, undoable: true });
  expect([10, 11, 15, 16, 35].map((id) => isSetAside(id, states))).toEqual([false, true, true, false, false]);
});

test("joins the output of a running tool and follows a compaction", () => {
  const update = (kind: string, payload: object) => ({ event: { kind, payload } as never, entry_id: null });
  const start: LiveTurn = { answer: null, thoughts: [], progress: {} };
  const running = [
    update("x.loop.tool.progress", { id: "c1", status: "half", output: "one " }),
    update("x.loop.tool.progress", { id: "c1", output: "two" }),
    update("session.compaction.started", {}),
  ].reduce((turn, each) => addUpdate(turn, each, 1), start);
  expect(running.progress.c1).toEqual({ status: "half", output: "one two" });
  expect(running.compacting).toBe(true);
  const failed = addUpdate(running, update("session.compaction.failed", { error: "no model" }), 1);
  expect(failed).toMatchObject({ compacting: false, compaction_error: "no model" });
});

test("reads text files as text, other files as bytes, and limits their size", async () => {
  const notes = await readAttachment(new File(["# Notes"], "my notes.md"));
  expect(notes).toMatchObject({ name: "my notes.md", bytes: 7, block: { resource: { text: "# Notes" } } });
  expect(fileOf(notes.block)).toEqual({ name: "my notes.md", mime: "text/plain", bytes: 7 });
  const bytes = await readAttachment(new File([Uint8Array.of(0, 255)], "fake.txt"));
  expect(bytes.block).toMatchObject({ resource: { blob: "AP8=" } });
  await expect(readAttachment(new File([new Uint8Array(800_000)], "big.bin"))).rejects.toThrow(
    "big.bin is 800 kB. A message can have files of up to 740 kB.",
  );
  await expect(readAttachment(new File([], "none.txt"))).rejects.toThrow("none.txt is empty.");
  expect(attachmentsProblem("hello", [notes])).toBeNull();
  expect(attachmentsProblem("x".repeat(1_100_000), [])).toContain("Shorten it");
  expect(attachmentsProblem("", Array(MAX_ATTACHMENTS + 2).fill(notes))).toContain("Remove 2.");
  expect(toBase64(new Uint8Array(100_000))).toHaveLength(133_336);
  expect(scaledSize(4_000, 3_000)).toEqual({ width: 1_568, height: 1_176 });
  expect(scaledSize(10, 5)).toEqual({ width: 10, height: 5 });
});

test("names a session after the first line of its first message, and finds it by the words of its title", () => {
  expect(titleFrom("\n## Fix the build\nplease")).toBe("Fix the build");
  expect(titleFrom("word ".repeat(30))).toBe(`${"word ".repeat(11)}word…`);
  expect(titleFrom("")).toBe("New chat");
  expect(newSessionId(new Date("2026-01-02T03:04:05Z"))).toMatch(/^chat-20260102-030405-[0-9a-z]{5}$/);
  expect(matchesSession({ id: "s-1", metadata: { title: "Order 4711" } }, "4711 order")).toBe(true);
  expect(matchesSession({ id: "s-1", metadata: {} }, "4711")).toBe(false);
});

function createTestOutbox(message: (...args: unknown[]) => Promise<{ entry_id: number }>) {
  const stored = new Map<string, string>();
  let onState = () => {};
  const create = () =>
    createOutbox({
      address: { session_id: "s", workspace: "default" },
      client: { sessions: { message, create: async () => ({}) } } as never,
      live: {
        state: () => "live",
        onState(listener) {
          onState = listener;
          return () => {};
        },
      },
      storage: {
        getItem: (key) => stored.get(key) ?? null,
        setItem: (key, value) => void stored.set(key, value),
        removeItem: (key) => void stored.delete(key),
      },
      onStored: () => {},
    });
  return { create, stored, reconnect: () => onState() };
}

test("sends an unanswered message again with the same key, in order, even after a reload", async () => {
  const sent: string[] = [];
  let reachable = false;
  const { create, stored } = createTestOutbox(async (_id, body, _where, options) => {
    sent.push(
      `${(body as { text: string }).text} ${(options as { idempotency_key: string }).idempotency_key}`,
    );
    if (!reachable) throw new BackplaneError("daemon.unreachable", "No gateway responds.");
    return { entry_id: sent.length };
  });
  const first = create();
  first.send({ text: "one", attachments: [], title: null });
  first.send({ text: "two", attachments: [], title: null });
  await vi.waitFor(() => expect(first.messages().map(({ state }) => state)).toEqual(["waiting", "sending"]));
  first.close();
  reachable = true;
  const second = create();
  await vi.waitFor(() => expect(second.messages().map(({ state }) => state)).toEqual(["stored", "stored"]));
  expect(sent.map((each) => each.split(" ")[0])).toEqual(["one", "one", "two"]);
  expect(sent[0]).toBe(sent[1]);
  expect(stored.size).toBe(0);
  second.settle(2);
  expect(second.messages().map(({ text }) => text)).toEqual(["two"]);
  second.close();
});

test("keeps a rejected message until the person sends it again", async () => {
  let allowed = false;
  const { create, reconnect } = createTestOutbox(async () => {
    if (!allowed) throw new BackplaneError("request.invalid", "No.");
    return { entry_id: 7 };
  });
  const outbox = create();
  outbox.send({ text: "one", attachments: [], title: null });
  await vi.waitFor(() => expect(outbox.messages()[0]!.state).toBe("rejected"));
  reconnect();
  expect(outbox.messages()[0]!.state).toBe("rejected");
  allowed = true;
  outbox.retry();
  await vi.waitFor(() => expect(outbox.messages()[0]).toMatchObject({ state: "stored", entry_id: 7 }));
  expect(outbox.discard(outbox.messages()[0]!.key)).toBeUndefined();
  outbox.close();
});
