/** `session chat` against a real gateway with the offline model: for scripts, and at a terminal. */
import type { Approval, Pin, Run } from "@backplane/contract";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { EXIT } from "../../../src/index.ts";
import { startDroppingProxy } from "../../support/dropping-proxy.ts";
import { startTestGateway, type TestGateway } from "../../support/gateway.ts";
import { waitForOutput } from "../../support/wait-for-output.ts";

let gateway: TestGateway;
beforeAll(async () => {
  gateway = await startTestGateway();
});
afterAll(() => gateway.close());

const SUB_AGENT_MESSAGE = '/tool agent {"goal":"/say child done"}\n/then\n/say all done';
const CTRL_C = "\u0003";
const CTRL_D = "\u0004";

describe("scripted", () => {
  test("prints answers on stdout and everything else on stderr", async () => {
    const result = await gateway.backplane(["session", "chat", "s1", "-m", "one", "-m", "two"]);
    expect(result).toEqual({ exit: EXIT.ok, out: "echo: one\necho: two\n", err: "Session: s1\n" });
  });

  test("sends stdin as one message in a new session without -m", async () => {
    const result = await gateway.backplane(["session", "chat"], { stdin: "two\nlines\n" });
    expect(result.out).toBe("echo: two\nlines\n");
    const id = /Session: (\S+)/.exec(result.err)?.[1];
    expect((await gateway.backplane(["session", "show", id!])).out).toContain("you: two\n  lines");
    const empty = await gateway.backplane(["session", "chat"]);
    expect(empty.exit).toBe(EXIT.usage);
    const again = await gateway.backplane(["session", "chat", id!, "--new", "-m", "x"]);
    expect(again.err).toContain("error[session.conflict]");
  });

  test("continues the most recent session of the workspace with --continue", async () => {
    const say = (text: string, ...more: string[]) =>
      gateway.backplane(["session", "chat", ...more, "-m", text]);
    const no_session = await say("x", "--continue", "--workspace", "desert");
    expect(no_session.err).toContain("error[session.not_found]");
    await say("one", "older");
    await say("two", "newer");
    await say("three", "older");
    expect(await say("four", "--continue")).toMatchObject({ out: "echo: four\n", err: "Session: older\n" });
    await say("five", "newer", "--workspace", "elsewhere");
    expect((await say("six", "-c", "--workspace", "elsewhere")).err).toBe("Session: newer\n");
    expect((await say("x", "older", "--continue")).exit).toBe(EXIT.usage);
  });

  test("prints one JSON document with the runs with --json", async () => {
    const result = await gateway.json<{ session_id: string; runs: Run[] }>([
      "session",
      "chat",
      "s2",
      "-m",
      "hi",
    ]);
    expect(result).toMatchObject({
      session_id: "s2",
      runs: [{ status: "completed", output: { content: "echo: hi" } }],
      exit_code: EXIT.ok,
    });
  });

  test("prints three lines for a failed turn, exits with 1 and does not send later messages", async () => {
    const result = await gateway.backplane([
      "session",
      "chat",
      "s3",
      "-m",
      "/error other",
      "-m",
      "more",
      "--quiet",
    ]);
    expect({ exit: result.exit, out: result.out }).toEqual({ exit: EXIT.failed, out: "" });
    expect(result.err).toMatch(/^error\[llm\.failed\].*\n.*run_.*\nfix: .*\n$/);
  });

  async function startApproval(...argv: string[]) {
    const call = gateway.begin(["session", "chat", ...argv, "-m", SUB_AGENT_MESSAGE]);
    return { ...call, id: await waitForOutput(call.io.err, /backplane approve allow (\S+) \(or deny\)/) };
  }

  test("prints an approval request with the commands that answer it, and waits", async () => {
    const { id, ended, io } = await startApproval("s4");
    expect(io.err()).toContain("agent is awaiting approval (unknown risk): spawn agent: /say child done");
    await gateway.json(["approve", "allow", id]);
    const { exit, out, err } = await ended;
    expect({ exit, out }).toEqual({ exit: EXIT.ok, out: "all done\n" });
    expect(err).toContain("✓ agent: done in 1 step");
  });

  test("prints approval requests of sub-agents", async () => {
    const deep = JSON.stringify({ goal: '/tool agent {"goal":"/say deep"}\n/then\n/say middle' });
    const call = gateway.begin(["session", "chat", "s8", "-m", `/tool agent ${deep}\n/then\n/say top`]);
    const first = await waitForOutput(call.io.err, /backplane approve allow (\S+) \(or deny\)/);
    await gateway.json(["approve", "allow", first]);
    const second = await waitForOutput(
      () => call.io.err().replaceAll(first, ""),
      /backplane approve allow (appr_\S+) \(or deny\)/,
    );
    const approval = await gateway.json<Approval>(["approve", "show", second]);
    expect(approval.session_id).toMatch(/^s8::agent::/);
    await gateway.json(["approve", "allow", second]);
    expect(await call.ended).toMatchObject({ exit: EXIT.ok, out: "top\n" });
  });

  test("exits with 3 if an approval is rejected", async () => {
    const { id, ended } = await startApproval("s5");
    await gateway.json(["approve", "deny", id, "--feedback", "not today"]);
    const { exit, out, err } = await ended;
    expect({ exit, out }).toEqual({ exit: EXIT.denied, out: "all done\n" });
    expect(err).toContain("⊘ agent: rejected: not today");
  });

  test("interrupts the turn and exits with 3 if --timeout passes without an answer", async () => {
    const { id, ended } = await startApproval("s6", "--timeout", "0");
    const { exit, err } = await ended;
    expect(exit).toBe(EXIT.denied);
    expect(err).toContain("error[approval.expired]");
    expect((await gateway.json<Approval>(["approve", "show", id])).status).toBe("cancelled");
  });

  test("interrupts the turn on Ctrl-C and exits with 130", async () => {
    const { io, ended } = await startApproval("s7");
    io.signal("SIGINT");
    expect((await ended).exit).toBe(EXIT.interrupted);
  });
});

describe("at a terminal", () => {
  async function startChat(id: string, url?: string) {
    const env = { NO_COLOR: "1", ...(url === undefined ? {} : { BACKPLANE_URL: url }) };
    const { io, ended } = gateway.begin(["session", "chat", id], { tty: true, env });
    await waitForOutput(io.err, /> /);
    let read_length = io.err().length;
    return {
      io,
      ended,
      type: (text: string) => void io.stdin.write(text),
      /** Waits for a match in the output since the previous match. */
      until: async (pattern: RegExp) => {
        await waitForOutput(() => io.err().slice(read_length), pattern);
        read_length = io.err().length;
      },
    };
  }

  test("streams text, shows tool calls, and prompts for an approval with its arguments", async () => {
    const { io, ended, type, until } = await startChat("t1");
    type("hello\r");
    await waitForOutput(io.out, /echo: hello\n/);
    await until(/> /);
    type(SUB_AGENT_MESSAGE.replaceAll("\n", "\\\r"));
    type("\r");
    await until(
      /→ sub-agent: \/say child done\n[\s\S]*\(unknown risk\)[\s\S]*"goal": "\/say child done"[\s\S]*\[y\] once/,
    );
    type("maybe\r");
    await until(/\[y\] once/);
    type("y\r");
    await until(/✓ agent: done in 1 step/);
    await waitForOutput(io.out, /all done\n/);
    type(CTRL_D);
    expect((await ended).exit).toBe(EXIT.ok);
    expect(io.out()).toBe("echo: hello\nall done\n");
    // The line editor has restored the terminal.
    expect(io.raw.at(-1)).toBe(false);
  });

  test("rejects a call of unknown risk on Enter, with an optional reason", async () => {
    const { io, ended, type, until } = await startChat("t2");
    type('/tool agent {"goal":"x"}\r');
    await until(/Enter: n/);
    type("\r");
    await until(/Reason\?/);
    type("too early\r");
    await until(/⊘ agent: rejected: too early[\s\S]*> /);
    type("/quit\r");
    expect((await ended).exit).toBe(EXIT.ok);
    expect(io.out()).toContain("too early");
  });

  test("approves a call for the session on [s]", async () => {
    const { io, ended, type, until } = await startChat("t3");
    const call = '/tool agent {"goal":"/say kid"}\r';
    type(call);
    await until(/\[s\] these arguments in this session/);
    type("sure\r");
    await until(/Answer y, s.* or n\./);
    type("s\r");
    await until(/✓ agent[\s\S]*> /);
    type(call);
    await until(/✓ agent[\s\S]*> /);
    type(CTRL_D);
    await ended;
    expect(io.err().match(/requests approval/g)).toHaveLength(1);
  });

  test("withdraws a question that was answered elsewhere", async () => {
    const { io, ended, type, until } = await startChat("t4");
    type('/tool agent {"goal":"/say kid"}\r');
    await until(/\[y\] once/);
    const { items } = await gateway.json<{ items: Approval[] }>(["approve", "list"]);
    await gateway.json(["approve", "allow", items.find((item) => item.session_id === "t4")!.id]);
    await until(/approved by admin[\s\S]*> /);
    type("next\r");
    await waitForOutput(io.out, /echo: next/);
    type(CTRL_D);
    expect((await ended).exit).toBe(EXIT.ok);
  });

  test("ends the turn on Ctrl-C, and exits with 130 on a second one within 2 s", async () => {
    const { io, ended, type, until } = await startChat("t5");
    type("/slow 200\\\r/say a b c d e f g h i j k l m n o p\r");
    await waitForOutput(io.out, /a/);
    type(CTRL_C);
    await until(/interrupted[\s\S]*> /);
    expect(io.out()).not.toContain("p");
    type(CTRL_C);
    expect((await ended).exit).toBe(EXIT.interrupted);
  });

  test("runs /help, /model, /fork, /pin and /reset locally and sends other lines to the agent", async () => {
    const { io, ended, type, until } = await startChat("t6");
    type("/help\r");
    await until(/\/compact +summarize[\s\S]*> /);
    type("/model\r");
    await until(/\* +llm-echo[\s\S]*> /);
    type("/model absent\r");
    await until(/error\[provider\.not_found\][\s\S]*> /);
    type("/fork t6-child\r");
    await until(/Continuing in session t6-child[\s\S]*> /);
    type("/say in the child\r");
    await waitForOutput(io.out, /in the child\n/);
    await until(/> /);
    type("/pin\r");
    await until(/Pinned entry \d+[\s\S]*> /);
    type("/pins\r");
    await until(/message +yes +\/say in the child[\s\S]*> /);
    const [pin] = await readPins("t6-child");
    type(`/unpin ${pin}\r`);
    await until(/is now unpinned[\s\S]*> /);
    expect(await readPins("t6-child")).toEqual([]);
    type("/unpin it\r");
    await until(/error\[cli\.usage\][\s\S]*> /);
    type("/undo\r");
    await until(/error\[request\.invalid\][\s\S]*> /);
    type("/reset\r");
    await until(/archived[\s\S]*> /);
    type(CTRL_D);
    expect((await ended).exit).toBe(EXIT.ok);
    expect((await gateway.backplane(["session", "show", "t6"])).out).not.toContain("in the child");
    expect((await gateway.backplane(["session", "show", "t6-child"])).out).toContain("in the child");
  });

  const readPins = async (id: string) =>
    (await gateway.json<{ items: Pin[] }>(["session", "pins", id])).items.map(({ entry_id }) => entry_id);

  test("reports a failed turn in three lines and continues", async () => {
    const { io, ended, type, until } = await startChat("t7");
    type("/error other\r");
    await until(/error\[llm\.failed\].*\n.*\nfix: [\s\S]*> /);
    type("still here\r");
    await waitForOutput(io.out, /echo: still here/);
    type(CTRL_D);
    expect((await ended).exit).toBe(EXIT.ok);
  });

  test("neither loses nor repeats anything when the stream is interrupted repeatedly", async () => {
    const proxy = await startDroppingProxy(gateway.url);
    try {
      const { io, ended, type, until } = await startChat("t8", proxy.url);
      const text = Array.from({ length: 40 }, (_, n) => `word${n}`).join(" ");
      type(`/slow 60\\\r/say ${text}\r`);
      for (const at of ["word2", "word8", "word20"]) {
        await waitForOutput(io.out, new RegExp(`${at} `));
        proxy.dropConnections();
      }
      await until(/> /);
      expect(io.out()).toBe(`${text}\n`);
      expect(proxy.dropped()).toBeGreaterThan(2);
      type(CTRL_D);
      expect((await ended).exit).toBe(EXIT.ok);
    } finally {
      await proxy.close();
    }
  }, 60_000);

  test("reconnects to the gateway with the next message", async () => {
    const proxy = await startDroppingProxy(gateway.url);
    const { io, ended, type, until } = await startChat("t9", proxy.url);
    await proxy.close();
    type("lost\r");
    await until(/error\[daemon\.unreachable\][\s\S]*> /);
    const again = await startDroppingProxy(gateway.url, Number(new URL(proxy.url).port));
    type("found\r");
    await waitForOutput(io.out, /echo: found\n/);
    type(CTRL_D);
    expect((await ended).exit).toBe(EXIT.ok);
    expect(io.out()).toBe("echo: found\n");
    await again.close();
  }, 60_000);
});
