/** Keys, audit log, events, status and doctor against a real gateway. */
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { EXIT } from "../../src/index.ts";
import { installKit, startTestGateway, type TestGateway } from "../support/gateway.ts";
import { waitForOutput } from "../support/wait-for-output.ts";

let gateway: TestGateway;
beforeAll(async () => {
  gateway = await startTestGateway();
  await installKit(gateway);
});
afterAll(() => gateway.close());

describe("access and records", () => {
  test("limits a key to its scopes until it is revoked", async () => {
    const created = await gateway.json<{ key: { id: string }; token: string }>([
      "key",
      "create",
      "ci",
      "--scope",
      "exports:read,invocations:write",
      "--scope",
      "invocations:read",
      "--expires",
      "1d",
    ]);
    const env = { BACKPLANE_TOKEN: created.token };
    expect((await gateway.backplane(["invoke", "echo", "--input", '{"text":"k"}'], { env })).exit).toBe(
      EXIT.ok,
    );
    const refused = await gateway.backplane(["plugin", "list"], { env });
    expect(refused.exit).toBe(EXIT.auth);
    expect(refused.err).toContain("error[auth.scope]");
    const listed = await gateway.backplane(["key", "list"]);
    expect(listed.out).toContain(created.key.id);
    expect(listed.out).not.toContain(created.token);
    expect((await gateway.backplane(["key", "revoke", created.key.id, "--yes"])).exit).toBe(EXIT.ok);
    expect((await gateway.backplane(["invoke", "echo"], { env })).err).toContain("error[auth.invalid]");
  });

  test("corrects and renews a trusted signing key with `key trust`", async () => {
    const key = join(gateway.home, "acme.key");
    await gateway.json(["key", "generate", "-o", key]);
    const trust = (...more: string[]) =>
      gateway.backplane(["key", "trust", `${key}.pub`, "--name", "Acme", ...more]);
    const expired = await trust("--not-after", "2020-01-01T00:00:00Z");
    expect(expired.exit).toBe(EXIT.failed);
    expect(expired.err).toContain("The period of the key is over");
    expect((await trust("--packages", "acne/*", "--not-after", "2998-01-01T00:00:00Z")).exit).toBe(EXIT.ok);
    expect((await trust("--packages", "acme/*")).out).toContain(
      "as Acme for acme/* until 2998-01-01T00:00:00Z (tkey_",
    );
    expect((await trust("--not-after", "none")).out).toContain("as Acme for acme/* (tkey_");
    const { id } = await gateway.json<{ id: string }>(["key", "trust", `${key}.pub`, "--name", "Acme Inc."]);
    await gateway.json(["key", "revoke", id, "--yes"]);
    expect((await trust()).err).toContain("cannot be trusted again");
  });

  test("lists audit entries and tails events", async () => {
    const audit = await gateway.json<{ items: { action: string }[] }>(["audit", "list", "--limit", "100"]);
    expect(audit.items.length).toBeGreaterThan(3);
    const { out } = await gateway.backplane(["events", "tail", "--after", "0", "--count", "3", "--json"]);
    const events = out
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line) as { seq: number; type: string });
    expect(events).toHaveLength(3);
    expect(events.map((event) => event.type)).toContain("binding.changed");
  });

  test("filters `events tail` by type and start", async () => {
    const argv = ["events", "tail", "--type", "binding.changed", "--count", "2", "--json"];
    const read = async (...more: string[]) =>
      (await gateway.backplane([...argv, ...more])).out
        .trim()
        .split("\n")
        .map((line) => JSON.parse(line) as { seq: number; type: string });
    const [first, second] = await read();
    expect([first?.type, second?.type]).toEqual(["binding.changed", "binding.changed"]);
    expect((await read("--since", String(first?.seq)))[0]).toEqual(second);
    const unknown = await gateway.backplane(["events", "tail", "--type", "nonsense"]);
    expect(unknown.exit).toBe(EXIT.usage);
  });

  test("ends `events tail` on Ctrl-C with 130", async () => {
    const { io, ended } = gateway.begin(["events", "tail"]);
    await waitForOutput(io.out, /binding\.changed/);
    io.signal("SIGINT");
    expect((await ended).exit).toBe(EXIT.interrupted);
  });

  test("prints the status and a sign-in link that works once", async () => {
    expect(await gateway.json(["status"])).toMatchObject({ ready: true, url: gateway.url, pid: process.pid });
    expect((await gateway.backplane(["status"])).out).toContain(`ready at ${gateway.url}`);
    const { login_url } = await gateway.json<{ login_url: string }>(["open"]);
    const first = await fetch(login_url, { redirect: "manual" });
    expect(first.status).toBe(303);
    expect((await fetch(login_url, { redirect: "manual" })).status).toBe(401);
  });

  test("reports no failure in `doctor`, either as text or as JSON", async () => {
    const report = await gateway.json<{
      status: string;
      checks: { name: string; status: string; fix?: string }[];
    }>(["doctor"]);
    expect(report.status).not.toBe("failed");
    expect(report.checks.find((check) => check.name === "gateway")?.status).toBe("ok");
    expect(report.checks.find((check) => check.name === "credential")?.status).toBe("ok");
    // A provider that is in use and has no key is degraded, which is not a failure.
    await gateway.json(["provider", "use", "llm-anthropic"]);
    const text = await gateway.backplane(["doctor", "--timeout", "20"]);
    await gateway.json(["provider", "use", "llm-echo"]);
    expect(text.exit).toBe(EXIT.ok);
    expect(text.out).toContain("fix: ");
  });

  test("exits with 4 for an invalid token", async () => {
    expect((await gateway.backplane(["status", "--token", "bpa_wrong"])).exit).toBe(EXIT.auth);
  });
});

test("writes admin.token and gateway.json, which commands read, to the home", () => {
  expect(existsSync(join(gateway.home, "admin.token"))).toBe(true);
  expect(JSON.parse(readFileSync(join(gateway.home, "gateway.json"), "utf8"))).toMatchObject({
    url: gateway.url,
  });
});
