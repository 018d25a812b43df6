/** `config` commands against a real gateway. */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { EXIT } from "../../src/index.ts";
import { startTestGateway, type TestGateway } from "../support/gateway.ts";
import { waitForOutput } from "../support/wait-for-output.ts";

let gateway: TestGateway;
beforeAll(async () => {
  gateway = await startTestGateway();
});
afterAll(() => gateway.close());

const setConfig = (...argv: string[]) => gateway.backplane(["config", "set", ...argv]);

test("stores JSON values as JSON, and other values, numbers that would lose digits and values with --text as text", async () => {
  expect(await setConfig("provider", "prod")).toEqual({ exit: EXIT.ok, out: "Set provider\n", err: "" });
  await setConfig("app.limits", '{"pages":3}');
  await setConfig("app.count", "30");
  await setConfig("app.version", "1.10");
  await setConfig("app.account", "12345678901234567890");
  await setConfig("app.text", "30", "--text");
  await gateway.backplane(["config", "set", "app.from_pipe"], { stdin: "two\nlines\n" });
  await gateway.backplane(["config", "set", "app.dash", "-"], { stdin: "true" });
  expect(await gateway.json(["config", "list", "app."])).toEqual({
    "app.account": "12345678901234567890",
    "app.count": 30,
    "app.dash": true,
    "app.from_pipe": "two\nlines",
    "app.limits": { pages: 3 },
    "app.text": "30",
    "app.version": "1.10",
  });
  expect(await gateway.json(["config", "get", "provider"])).toEqual({ key: "provider", value: "prod" });
  expect((await gateway.backplane(["config", "get", "app.limits"])).out).toBe('{"pages":3}\n');
  expect((await gateway.backplane(["config", "list"])).out).toMatch(
    /^KEY +VALUE\n(.+\n)*provider +prod\n(.+\n)*$/,
  );
  expect((await gateway.backplane(["config", "list", "none."])).err).toBe("Nothing found.\n");
});

test("reads a secret from stdin, masks it, and shows it only to an admin with --show", async () => {
  const value = "sk-verysecretvalue-9876";
  const as_argument = await setConfig("providers.prod.api_key", value);
  expect(as_argument.exit).toBe(EXIT.usage);
  expect(as_argument.out + as_argument.err).not.toContain(value);
  const key = "providers.prod.api_key";
  const stored = await gateway.backplane(["config", "set", key], { stdin: `${value}\n` });
  expect(stored.exit).toBe(EXIT.ok);
  expect((await gateway.backplane(["config", "get", key])).out).toBe("****9876\n");
  expect((await gateway.backplane(["config", "list"])).out).toContain("****9876");
  expect((await gateway.backplane(["config", "get", key, "--show"])).out).toBe(`${value}\n`);
  expect(await gateway.json(["config", "get", key, "--show"])).toEqual({ key, value });
  await gateway.backplane(["config", "set", "app.pin_secret"], { stdin: "12345678" });
  expect(await gateway.json(["config", "get", "app.pin_secret", "--show"])).toMatchObject({
    value: "12345678",
  });

  const created = await gateway.json<{ token: string }>(["key", "create", "r", "--scope", "config:read"]);
  const env = { BACKPLANE_TOKEN: created.token };
  expect((await gateway.backplane(["config", "get", key], { env })).out).toBe("****9876\n");
  const refused = await gateway.backplane(["config", "get", key, "--show"], { env });
  expect([refused.exit, refused.out]).toEqual([EXIT.auth, ""]);
  expect((await gateway.backplane(["config", "set", "a", "b"], { env })).exit).toBe(EXIT.auth);

  const audit = await gateway.json<{ items: { action: string }[] }>(["audit", "list", "--limit", "100"]);
  expect(audit.items.filter(({ action }) => action === "config.show")).toHaveLength(3);
  expect(JSON.stringify(audit)).not.toContain(value);
  const files = readdirSync(gateway.home).filter((name) => name.startsWith("store.db"));
  for (const name of files) expect(readFileSync(join(gateway.home, name)).includes(value), name).toBe(false);
});

test("prompts for a secret at a terminal without echo", async () => {
  const { io, ended } = gateway.begin(["config", "set", "app.access_token"], { tty: true });
  await waitForOutput(io.err, /Value of app\.access_token: /);
  io.stdin.write("typed-value-1\r");
  expect((await ended).exit).toBe(EXIT.ok);
  expect(io.out() + io.err()).not.toContain("typed-value-1");
  expect(await gateway.json(["config", "get", "app.access_token"])).toMatchObject({ value: "****ue-1" });
});

test("removes a key with `unset`, and asks for confirmation before it removes all keys under a prefix", async () => {
  await setConfig("gone.a", "1");
  await setConfig("gone.b", "2");
  await setConfig("gone", "3");
  expect(await gateway.json(["config", "unset", "gone"])).toEqual({ key: "gone", removed: true });
  expect((await gateway.backplane(["config", "unset", "gone"])).out).toBe("gone was not set\n");
  expect((await gateway.backplane(["config", "unset", "gone.*"])).exit).toBe(EXIT.usage);
  expect(await gateway.json(["config", "list", "gone"])).toEqual({ "gone.a": 1, "gone.b": 2 });
  expect((await gateway.backplane(["config", "unset", "gone.*", "--yes"])).exit).toBe(EXIT.ok);
  expect(await gateway.json(["config", "list", "gone"])).toEqual({});
});

test("warns about a key that resembles one of the gateway's own keys", async () => {
  const misspelled = await setConfig("provdier", "prod");
  expect([misspelled.exit, misspelled.err]).toEqual([
    EXIT.ok,
    "The gateway does not read provdier. Did you mean provider? To undo: backplane config unset provdier\n",
  ]);
  expect((await setConfig("plugins.search.pages", "3")).err).toContain("Did you mean plugin.search.pages?");
  for (const key of ["plugin.search.pages", "app.limit"]) expect((await setConfig(key, "3")).err).toBe("");
});

test("reports a missing or invalid key with an error code", async () => {
  const missing = await gateway.backplane(["config", "get", "not.there"]);
  expect([missing.exit, missing.out]).toEqual([EXIT.failed, ""]);
  expect(missing.err).toContain("error[config.not_found]");
  expect((await setConfig("not a key", "1")).err).toContain("error[request.invalid]");
  expect((await setConfig("a.b")).exit).toBe(EXIT.usage);
});
