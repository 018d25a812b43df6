import { afterAll, beforeAll, expect, test } from "vitest";
import { EXIT } from "../../src/index.ts";
import { startTestGateway, type TestGateway } from "../support/gateway.ts";
import { waitForOutput } from "../support/wait-for-output.ts";

let gateway: TestGateway;
beforeAll(async () => {
  gateway = await startTestGateway();
});
afterAll(() => gateway.close());

interface Row {
  id: string;
  plugin: string;
  active: boolean;
  config: Record<string, unknown>;
}
const listInstances = async () => (await gateway.json<{ items: Row[] }>(["provider", "list"])).items;

test("adds, changes, activates, tests and removes an instance", async () => {
  const argv = ["provider", "add", "llm-echo", "--id", "second", "--label", "Second"];
  expect(await gateway.json(argv)).toMatchObject({ id: "second", label: "Second", active: false });
  await gateway.json(["provider", "set", "second", "model=echo-2", "context_window=5000"]);
  await gateway.json(["provider", "set", "second", "context_window="]);
  expect((await listInstances()).find(({ id }) => id === "second")?.config).toEqual({ model: "echo-2" });
  expect(await gateway.json(["provider", "use", "second"])).toEqual({ active: "second" });
  expect((await listInstances()).filter(({ active }) => active).map(({ id }) => id)).toEqual(["second"]);
  expect(await gateway.json(["provider", "test", "second"])).toMatchObject({ id: "second", ok: true });
  expect((await gateway.backplane(["provider", "remove", "second"])).exit).toBe(EXIT.usage);
  const active = await gateway.backplane(["provider", "remove", "second", "--yes"]);
  expect(active.err).toContain("error[provider.conflict]");
  await gateway.json(["provider", "use", "llm-echo"]);
  expect(await gateway.json(["provider", "remove", "second", "--yes"])).toEqual({ removed: "second" });
  expect((await gateway.backplane(["provider", "list"])).out).toMatch(/^ID +ACTIVE +PLUGIN/);
});

test("reports an unknown or invalid field and writes nothing", async () => {
  for (const [pair, field] of [
    ["temperature=hot", "config.temperature"],
    ["temperature=9", "config.temperature"],
    ["api=telex", "config.api"],
    ["modle=gpt-5", "config.modle"],
    ["context_window=0", "config.context_window"],
  ] as const) {
    const added = await gateway.backplane(["provider", "add", "llm-openai", "--id", "wrong", "--set", pair]);
    expect(added.exit, pair).toBe(EXIT.failed);
    expect(added.err).toContain("error[provider.invalid]");
    expect(added.err).toContain(field);
    const changed = await gateway.backplane(["provider", "set", "llm-openai", pair]);
    expect(changed.err).toContain(field);
  }
  expect((await listInstances()).find(({ id }) => id === "wrong")).toBeUndefined();
  expect((await listInstances()).find(({ id }) => id === "llm-openai")?.config).toEqual({});
});

test("`provider test` exits with 1 and prints the reason if the instance fails", async () => {
  const { exit, out } = await gateway.backplane(["provider", "test", "llm-openai", "--json"]);
  expect(exit).toBe(EXIT.failed);
  expect(JSON.parse(out)).toMatchObject({ ok: false, reason: expect.stringContaining("api_key") });
});

test("reads a secret from stdin or a hidden prompt, never from an argument, and masks it", async () => {
  const value = "sk-verysecretvalue-4321";
  const as_argument = await gateway.backplane(["provider", "add", "llm-openai", "--set", `api_key=${value}`]);
  expect(as_argument.exit).toBe(EXIT.usage);
  expect(as_argument.out + as_argument.err).not.toContain(value);
  const argv = ["provider", "add", "llm-openai", "--id", "prod", "--secret-stdin", "api_key"];
  const added = await gateway.backplane(argv, { stdin: `${value}\n` });
  expect(added.exit).toBe(EXIT.ok);
  expect((await listInstances()).find(({ id }) => id === "prod")?.config).toEqual({ api_key: "****4321" });
  const typed = gateway.begin(["provider", "set", "prod", "--secret-stdin", "api_key"], { tty: true });
  await waitForOutput(typed.io.err, /Value of api_key: /);
  typed.io.stdin.write("sk-anothersecret-8765\r");
  const { exit, out, err } = await typed.ended;
  expect(exit).toBe(EXIT.ok);
  expect(out + err).not.toContain("another");
  expect((await listInstances()).find(({ id }) => id === "prod")?.config).toEqual({ api_key: "****8765" });
});

test("reports invalid arguments and errors of the gateway", async () => {
  expect((await gateway.backplane(["provider", "set", "llm-echo"])).exit).toBe(EXIT.usage);
  expect((await gateway.backplane(["provider", "set", "llm-echo", "nonsense"])).exit).toBe(EXIT.usage);
  const unknown = await gateway.backplane(["provider", "add", "absent"]);
  expect(unknown.err).toContain("error[plugin.not_found]");
});

test("warns that a private address is refused until --allow-private is set", async () => {
  const add = (id: string, url: string, ...more: string[]) =>
    gateway.backplane(["provider", "add", "llm-openai", "--id", id, "--set", `base_url=${url}`, ...more]);
  const private_urls = [
    "http://localhost:11434/v1",
    "http://127.0.0.1:1",
    "http://10.1.2.3/v1",
    "http://[::1]:80",
  ];
  for (const [n, url] of private_urls.entries()) {
    const { err, exit } = await add(`near-${n}`, url);
    expect(exit).toBe(EXIT.ok);
    expect(err, url).toContain(`backplane provider set near-${n} --allow-private`);
  }
  const open = await gateway.backplane(["provider", "set", "near-0", "--allow-private"]);
  expect(open.err).not.toContain("refuses model calls");
  expect((await add("opened", private_urls[0]!, "--allow-private")).err).not.toContain("refuses model calls");
  expect((await add("far", "https://api.example.com/v1")).err).not.toContain("refuses model calls");
});

test("lists the models and the calls of a key that has limits at the model endpoints", async () => {
  const create = ["key", "create", "agent", "--scope", "llm:invoke,llm:read"];
  const invalid = await gateway.backplane([...create, "--llm", "nonsense"]);
  expect(invalid.exit).toBe(EXIT.usage);
  const { token, key } = await gateway.json<{ token: string; key: { id: string; llm: object } }>([
    ...create,
    "--llm",
    '{"requests_per_day": 1, "models": ["llm-echo/*"]}',
  ]);
  expect(key.llm).toEqual({ requests_per_day: 1, models: ["llm-echo/*"] });
  const ask = () =>
    fetch(`${gateway.url}/v1/chat/completions`, {
      method: "POST",
      headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
      body: JSON.stringify({ model: "llm-echo/echo", messages: [{ role: "user", content: "hello" }] }),
    });
  expect((await ask()).status).toBe(200);
  expect((await ask()).status).toBe(429);
  const env = { BACKPLANE_TOKEN: token };
  expect((await gateway.backplane(["llm", "models"], { env })).out).toContain("llm-echo/echo");
  const listed = await gateway.json<{ items: { id: string; key_id: string }[] }>(["llm", "calls"]);
  expect(listed.items.map(({ key_id }) => key_id)).toEqual([key.id]);
  const call = await gateway.backplane(["llm", "show", listed.items[0]!.id], { env });
  expect(call.out).toMatch(/status: +succeeded/);
  expect(call.out).toMatch(/tokens: +\d+ in, \d+ out/);
});
