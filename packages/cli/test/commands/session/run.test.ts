import type { Run } from "@backplane/contract";
import { afterAll, beforeAll, expect, test } from "vitest";
import { EXIT } from "../../../src/index.ts";
import { startTestGateway, type TestGateway } from "../../support/gateway.ts";
import { waitForOutput } from "../../support/wait-for-output.ts";

let gateway: TestGateway;
beforeAll(async () => {
  gateway = await startTestGateway();
});
afterAll(() => gateway.close());

const startArgs = (session: string, input: string, ...more: string[]) => [
  "run",
  "start",
  "--session",
  session,
  "--input",
  input,
  ...more,
];

test("prints the answer with --wait, and as it streams with --stream, each word once", async () => {
  expect(await gateway.backplane(startArgs("r1", "hi", "--wait"))).toMatchObject({
    exit: EXIT.ok,
    out: "echo: hi\n",
  });
  const streamed = gateway.begin(startArgs("r1", "/slow 40\n/say a b c d e f g h", "--stream"));
  await waitForOutput(streamed.io.out, /^a/);
  expect(streamed.io.out()).not.toContain("h");
  expect(await streamed.ended).toMatchObject({ exit: EXIT.ok, out: "a b c d e f g h\n" });
  const run = await gateway.json<Run>(startArgs("r1", "again", "--wait"));
  expect(run).toMatchObject({ status: "completed", trigger: "api", output: { content: "echo: again" } });
  const piped = await gateway.backplane(startArgs("r1", "-", "--wait"), { stdin: "from a pipe" });
  expect(piped.out).toBe("echo: from a pipe\n");
});

test("prints the run id on `start`, which `show` and `cancel` accept", async () => {
  const run = await gateway.json<Run>(startArgs("r2", "/slow 500\n/say a b c d e f g h"));
  expect(run.status).toBe("running");
  expect(await gateway.json<Run>(["run", "cancel", run.id])).toMatchObject({
    id: run.id,
    status: "cancelled",
  });
  expect((await gateway.backplane(["run", "show", run.id])).out).toMatch(/status: +cancelled\n/);
  expect((await gateway.backplane(["run", "cancel", run.id])).err).toContain("error[run.ended]");
});

test("lists the newest runs of a session first, page by page", async () => {
  const [first, second] = [
    await gateway.json<Run>(startArgs("r-list", "one\ntwo", "--wait")),
    await gateway.json<Run>(startArgs("r-list", "/error other", "--wait")).catch(() => null),
  ];
  const list = (...more: string[]) =>
    gateway.json<{ items: Run[]; next: string | null }>(["run", "list", "--session", "r-list", ...more]);
  const { items } = await list();
  expect(items.map(({ status }) => status)).toEqual(["failed", "completed"]);
  expect(items[1]!.id).toBe(first.id);
  expect(second).toBeNull();
  const page = await list("--limit", "1");
  expect((await list("--limit", "1", "--after", page.next!)).items).toEqual([items[1]]);
  const { out } = await gateway.backplane(["run", "list", "--session", "r-list"]);
  expect(out).toMatch(/^ID +SESSION +STATUS/);
  expect(out).toMatch(/failed \(llm\.failed\)/);
  expect(out).not.toContain("two");
});

test("prints the record of a failed run and exits with 1, or with 130 after Ctrl-C", async () => {
  const failed = await gateway.backplane(startArgs("r3", "/error other", "--wait", "--json"));
  expect(failed.exit).toBe(EXIT.failed);
  expect(JSON.parse(failed.out)).toMatchObject({ status: "failed", error: { code: "llm.failed" } });
  expect(failed.err).toMatch(/^error\[llm\.failed\]/m);
  const slow = gateway.begin(startArgs("r4", "/slow 500\n/say a b c d e f g h", "--stream"));
  await waitForOutput(slow.io.out, /a/);
  slow.io.signal("SIGINT");
  expect((await slow.ended).exit).toBe(EXIT.interrupted);
  expect((await gateway.backplane(startArgs("r5", " "))).exit).toBe(EXIT.usage);
});
