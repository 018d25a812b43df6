/** Calls against a real gateway and a real plugin: output and exit codes. */
import { chmodSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { AllowRule, Approval, Invocation } from "@backplane/contract";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { EXIT } from "../../../src/index.ts";
import { installKit, PLUGIN, startTestGateway, type TestGateway } from "../../support/gateway.ts";
import { waitForOutput } from "../../support/wait-for-output.ts";

let gateway: TestGateway;
beforeAll(async () => {
  gateway = await startTestGateway();
  await installKit(gateway);
});
afterAll(() => gateway.close());

const parseRecord = (out: string) => JSON.parse(out) as Invocation;

describe("invoke", () => {
  test("prints only the content as text", async () => {
    const result = await gateway.backplane(["invoke", "echo", "--input", '{"text":"hello"}']);
    expect(result).toEqual({ exit: EXIT.ok, out: "hello\n", err: "" });
  });

  test("accepts input fields as KEY=VALUE in addition to --input", async () => {
    const argv = ["invoke", "echo", "text=a=b", "--input", '{"text":"no","more":1}', "list=[1,2]", "id=1.10"];
    const { input } = await gateway.json<Invocation>(argv);
    expect(input).toEqual({ text: "a=b", more: 1, list: [1, 2], id: "1.10" });
    const wrong = await gateway.backplane(["invoke", "echo", "text"]);
    expect([wrong.exit, wrong.err]).toEqual([EXIT.usage, expect.stringContaining("text is not KEY=VALUE.")]);
  });

  test("suggests tools and commands that resemble a mistyped name", async () => {
    const mistyped = await gateway.backplane(["invoke", "ehco"]);
    expect(mistyped.exit).toBe(EXIT.failed);
    expect(mistyped.err).toContain("Did you mean echo?");
    expect(mistyped.err).toContain("fix: backplane invoke echo");
    expect((await gateway.backplane(["invoke", "nothing_like_it"])).err).not.toContain("Did you mean");
    const command = await gateway.backplane(["plugn", "list"]);
    expect([command.exit, command.err]).toEqual([
      EXIT.usage,
      expect.stringContaining("Did you mean plugin?"),
    ]);
  });

  test("reads input from stdin; --json prints the record; --follow prints events on stderr", async () => {
    const result = await gateway.backplane(["invoke", "echo", "--input", "-", "--json", "--follow"], {
      stdin: '{"text":"hi"}',
    });
    expect(result.exit).toBe(EXIT.ok);
    expect(parseRecord(result.out)).toMatchObject({
      status: "succeeded",
      input: { text: "hi" },
      export_id: "echo",
    });
    expect(result.err).toContain("progress: working");
  });

  test("sanitizes plugin output as text but not as JSON", async () => {
    const input = JSON.stringify({ text: "\u001b[31mred\u001b]0;owned\u0007" });
    const result = await gateway.backplane(["invoke", "echo", "--input", input], { tty: true });
    expect(result.out).toBe("red\n");
    const json = await gateway.json<Invocation>(["invoke", "echo", "--input", input]);
    expect(json.tool_result?.content).toEqual([{ type: "text", text: "\u001b[31mred\u001b]0;owned\u0007" }]);
  });

  test("exits with 1 for a failed call and prints a three-line error, or the record with --json", async () => {
    const result = await gateway.backplane(["invoke", "broken"]);
    expect(result.exit).toBe(EXIT.failed);
    expect(result.err.split("\n")).toHaveLength(4);
    expect(result.err).toMatch(/^error\[plugin_failed\]/);
    const json = await gateway.backplane(["invoke", "broken", "--json"]);
    expect(json.exit).toBe(EXIT.failed);
    expect(parseRecord(json.out)).toMatchObject({ status: "failed", error: { code: "plugin_failed" } });
  });

  test("exits with 6 for a call to a package with a changed byte and prints both digests", async () => {
    const damaged = await startTestGateway();
    try {
      await installKit(damaged);
      const store = join(damaged.home, "blobs/sha256");
      const file = join(store, readdirSync(store)[0]!, "tree/vai-plugin.toml");
      chmodSync(file, 0o644);
      writeFileSync(file, readFileSync(file, "utf8").replace("a", "b"));
      const result = await damaged.backplane(["invoke", "echo", "--input", '{"text":"hello"}']);
      expect(result.exit, result.err).toBe(EXIT.trust);
      expect(result.err).toMatch(/^error\[package\.corrupt\]/);
      expect(result.err).toMatch(
        /"vai-plugin\.toml" was changed \(expected 0644 sha256:[0-9a-f]{64}, found 0644 sha256:[0-9a-f]{64}\)/,
      );
    } finally {
      await damaged.close();
    }
  });

  test("exits with 1 for an error result and marks it in the list of succeeded calls", async () => {
    const result = await gateway.backplane(["invoke", "echo", "--input", '{"text":"as an error"}']);
    expect([result.exit, result.out]).toEqual([EXIT.failed, "not found\n"]);
    const listed = await gateway.backplane(["invocation", "list", "--limit", "1"]);
    expect(listed.out).toMatch(/echo +succeeded +is_error /);
  });

  test("exits with 1 for invalid input and prints the field", async () => {
    const { exit, err } = await gateway.backplane(["invoke", "echo", "--input", "{}"]);
    expect(exit).toBe(EXIT.failed);
    expect(err).toContain("error[input.invalid]");
    expect(err).toContain("text");
    expect(err).toContain("Its schema: backplane tool show echo\n");
  });

  test("exits with 124 on a timeout", async () => {
    const { exit, err } = await gateway.backplane(["invoke", "slow", "--timeout", "100"]);
    expect(exit).toBe(EXIT.timeout);
    expect(err).toMatch(/^error\[timeout\]/);
  });

  test("exits with 1 for an export without a binding and explains how to create one", async () => {
    const { exit, err } = await gateway.backplane(["invoke", "nothing"]);
    expect(exit).toBe(EXIT.failed);
    expect(err).toContain("backplane binding create");
  });

  test("suggests binding an export that is installed but not bound, and calling an export of a package", async () => {
    const unbound = await startTestGateway();
    try {
      await unbound.json(["plugin", "install", PLUGIN]);
      const { err } = await unbound.backplane(["invoke", "echo"]);
      expect(err).toContain("acme/cli-kit@0.1.0 has an export named echo, but it is not bound.");
      expect(err).toContain("fix: backplane binding create acme/cli-kit@0.1.0 echo\n");
      const by_package_id = await unbound.backplane(["invoke", "acme/cli-kit"]);
      expect(by_package_id.err).toContain("acme/cli-kit is a package; specify one of its exports.");
    } finally {
      await unbound.close();
    }
  });

  test("repeats the id, name or key that was not found", async () => {
    for (const [argv, name] of [
      [["binding", "show", "bind_x"], "bind_x"],
      [["session", "show", "my::session"], "my::session"],
      [["run", "show", "run_x"], "run_x"],
      [["invocation", "cancel", "inv_x"], "inv_x"],
      [["tool", "show", "no_tool"], "no_tool"],
      [["config", "get", "no.key"], "no.key"],
    ] as const) {
      const { err } = await gateway.backplane([...argv]);
      expect(err).toMatch(/^error\[[a-z]+\.not_found\]/);
      expect(err).toContain(`\n${name} was not found.`);
    }
    expect((await gateway.backplane(["run", "show", "run_x"])).err).toContain("fix: backplane run list\n");
  });

  test("names the rejected credential and the gateway that rejected it", async () => {
    const by_flag = await gateway.backplane(["tool", "list", "--token", "bpk_wrong"]);
    expect([by_flag.exit, by_flag.err]).toEqual([
      EXIT.auth,
      expect.stringContaining(`The gateway at ${gateway.url} rejected the token from --token.`),
    ]);
    const by_variable = await gateway.backplane(["tool", "list"], { env: { BACKPLANE_TOKEN: "bpk_wrong" } });
    expect(by_variable.err).toContain("rejected the token from BACKPLANE_TOKEN.");
  });

  test("cancels and records the call on Ctrl-C and exits with 130", async () => {
    const { io, ended } = gateway.begin(["invoke", "slow", "--follow", "--json"]);
    await waitForOutput(io.err, /progress: waiting/);
    io.signal("SIGINT");
    const { exit, out } = await ended;
    expect(exit).toBe(EXIT.interrupted);
    expect(parseRecord(out).status).toBe("cancelled");
    expect(await gateway.json<Invocation>(["invocation", "show", parseRecord(out).id])).toMatchObject({
      status: "cancelled",
    });
  });

  test("reports a cancellation by Ctrl-C once", async () => {
    const { io, ended } = gateway.begin(["invoke", "slow", "--follow"]);
    await waitForOutput(io.err, /progress: waiting/);
    io.signal("SIGINT");
    const { out, err } = await ended;
    expect(`${out}${err}`.match(/The invocation was cancelled\./g)).toHaveLength(1);
    expect(err).toMatch(/The command was interrupted, and the call was cancelled\. \(inv_\w+\)/);
  });

  test("returns the running call with --no-wait; `invocation` lists, shows, follows and cancels it", async () => {
    const started = await gateway.json<Invocation>(["invoke", "slow", "--no-wait"]);
    const events = gateway.begin(["invocation", "events", started.id, "--json"]);
    await waitForOutput(events.io.out, /waiting/);
    const running = await gateway.json<{ items: Invocation[] }>([
      "invocation",
      "list",
      "--status",
      "running",
    ]);
    expect(running.items.map((item) => item.id)).toContain(started.id);
    expect((await gateway.backplane(["invocation", "cancel", started.id])).exit).toBe(EXIT.ok);
    const followed = await events.ended;
    expect(followed.exit).toBe(EXIT.ok);
    const lines = followed.out
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line) as { settled?: Invocation });
    expect(lines.at(-1)?.settled?.status).toBe("cancelled");
    const again = await gateway.backplane(["invocation", "cancel", started.id]);
    expect(again.err).toContain("error[invocation.settled]");
    const invocation = await gateway.backplane(["invocation", "show", started.id]);
    expect(invocation.out).toContain("cancelled");
    expect((await gateway.backplane(["invoke", "--list"])).out).toContain(started.id);
  });
});

describe("approvals", () => {
  async function startWaitingCall(argv: string[] = []) {
    const call = gateway.begin(["invoke", "guarded", "--json", ...argv]);
    const id = await waitForOutput(call.io.err, /backplane approve allow (\S+)/);
    return { ...call, id };
  }

  test("reports with --no-wait that the call awaits approval", async () => {
    const { err } = await gateway.backplane(["invoke", "guarded", "--no-wait"]);
    const id = /Awaiting approval: backplane approve allow (appr_\w+)/.exec(err)?.[1] ?? "";
    expect((await gateway.backplane(["approve", "deny", id])).exit).toBe(EXIT.ok);
  });

  test("prints how to answer, waits, and runs once approved", async () => {
    const { id, ended } = await startWaitingCall();
    const pending = await gateway.json<{ items: Approval[] }>(["approve", "list"]);
    expect(pending.items.map((item) => item.id)).toContain(id);
    expect((await gateway.backplane(["approve", "show", id])).out).toContain("arguments:");
    const allowed = await gateway.backplane(["approve", "allow", id]);
    expect(allowed.out).toContain("Allowed guarded");
    expect(allowed.err).toMatch(/Follow the call: backplane invocation show inv_\w+\n/);
    const { exit, out } = await ended;
    expect({ exit, status: parseRecord(out).status }).toEqual({ exit: EXIT.ok, status: "succeeded" });
  });

  test("exits with 3 for a rejected call and prints the feedback", async () => {
    const { id, ended } = await startWaitingCall();
    await gateway.json(["approve", "deny", id, "--feedback", "not on a Friday"]);
    const { exit, out, err } = await ended;
    expect({ exit, code: parseRecord(out).error?.code }).toEqual({
      exit: EXIT.denied,
      code: "approval.rejected",
    });
    expect(err).toContain("not on a Friday");
    const late_answer = await gateway.backplane(["approve", "allow", id]);
    expect(late_answer.err).toContain("error[approval.closed]");
  });

  test("cancels the call and exits with 124 if --timeout passes without an answer", async () => {
    const { id, ended } = await startWaitingCall(["--timeout", "150"]);
    const { exit, out, err } = await ended;
    expect({ exit, status: parseRecord(out).status }).toEqual({ exit: EXIT.timeout, status: "cancelled" });
    expect(err).toContain(id);
    expect(err).toContain("error[timeout]");
  });

  test("lists an approval for the session as a grant that can be revoked", async () => {
    const first = await startWaitingCall(["--session", "sess_cli"]);
    await gateway.json(["approve", "allow", first.id, "--for-session"]);
    expect((await first.ended).exit).toBe(EXIT.ok);
    expect((await gateway.backplane(["invoke", "guarded", "--session", "sess_cli"])).exit).toBe(EXIT.ok);
    const { items } = await gateway.json<{ items: { id: string; session_id: string }[] }>([
      "approve",
      "grants",
    ]);
    expect(items).toMatchObject([{ session_id: "sess_cli" }]);
    await gateway.json(["approve", "revoke", items[0]!.id]);
    const second = await startWaitingCall(["--session", "sess_cli"]);
    await gateway.json(["approve", "deny", second.id]);
    expect((await second.ended).exit).toBe(EXIT.denied);
  });

  test("creates allow rules from an approval or a command, lists them and removes them", async () => {
    const first = await startWaitingCall();
    const approval = await gateway.backplane(["approve", "show", first.id]);
    expect(approval.out).toMatch(/may_cover.*--always: arguments, tool/);
    const allowed = await gateway.backplane(["approve", "allow", first.id, "--always"]);
    expect(allowed.err).toContain("backplane allow list");
    expect((await first.ended).exit).toBe(EXIT.ok);
    const { items } = await gateway.json<{ items: AllowRule[] }>(["allow", "list"]);
    expect(items).toMatchObject([{ tool: "guarded", identity: "admin", arguments: null }]);
    expect((await gateway.backplane(["allow", "list"])).out).toMatch(/guarded +low +admin/);
    const { id, allowed_by } = await gateway.json<Invocation>(["invoke", "guarded"]);
    expect(allowed_by).toBe(items[0]!.id);
    expect((await gateway.backplane(["invocation", "show", id])).out).toMatch(/allowed_by: +alw_/);
    await gateway.json(["allow", "remove", allowed_by!]);
    const added = await gateway.backplane(
      "allow add guarded --for everyone --max-risk high --argument path=/data/* --only-these-arguments".split(
        " ",
      ),
    );
    expect(added.out).toMatch(
      /^Allowed guarded with path=\/data\/\* for every caller, up to high risk \(alw_/,
    );
    expect(added.err).toMatch(/To undo: backplane allow remove alw_/);
    const second = await startWaitingCall();
    await gateway.json(["approve", "deny", second.id]);
    await second.ended;
    await gateway.json(["policy", "set", "lasting_approvals", "medium"]);
    expect((await gateway.backplane(["allow", "list"])).out).toContain(
      "Calls above medium risk need approval",
    );
    await gateway.json(["policy", "set", "lasting_approvals", "null"]);
    expect((await gateway.backplane(["allow", "list"])).out).toContain("in effect");
    for (const rule of (await gateway.json<{ items: AllowRule[] }>(["allow", "list"])).items)
      expect((await gateway.backplane(["allow", "remove", rule.id])).out).toContain(`Removed ${rule.id}`);
    const neither = await gateway.backplane(["allow", "add"]);
    expect(neither.err).toContain("set exactly one of tool and server");
  });
});
