/** Bypass attempts against the way out, as a plain client of it: none gets anywhere, and each is on the record. */
import { expect, test } from "vitest";
import { hello } from "../../packages/runner/test/support/client-hello.ts";
import { ATTACKS } from "./egress-attacks.ts";
import { openWorld } from "./egress-world.ts";

test("an allowed request reaches the upstream servers, and a forbidden one would be detected", async () => {
  const { rig, send, tunnel, port, hits, told } = await openWorld({
    names: { "x.cdn.acme.test": ["127.0.0.1"] },
    operator_allows: [],
  });
  const http = send(`GET http://api.acme.test:${port}/x HTTP/1.1\r\nHost: api.acme.test:${port}\r\n\r\n`);
  await http.waitFor(/ok$/);
  await tunnel("api.acme.test", hello({ name: "api.acme.test" }));
  await expect.poll(() => told()).toContain("\x16\x03\x01");
  expect(told()).toContain("GET /x HTTP/1.1\r\nHost: api.acme.test");
  expect({ hits, refusals: rig.session.refusals() }).toEqual({ hits: [], refusals: [] });
  await tunnel("api.acme.test", hello({ name: "api.acme.test" }), "evil");
  await expect.poll(() => hits.length).toBe(1);
  const open = await openWorld({
    operator_allows: [`api.acme.test:${port}`],
    names: { "api.acme.test": ["127.0.0.1"] },
  });
  await open.send(`CONNECT api.acme.test:${port} HTTP/1.1\r\n\r\n`).waitFor(/established/);
  await expect.poll(() => hits).toContain("a connection at 127.0.0.1");
});

test("has more than 60 attacks with unique names", () => {
  expect(ATTACKS.length).toBeGreaterThanOrEqual(60);
  expect(new Set(ATTACKS.map(({ name }) => name)).size).toBe(ATTACKS.length);
});

for (const { name, reason, host, world: options, run } of ATTACKS) {
  test(`refuses: ${name}`, async () => {
    const world = await openWorld(options);
    await run(world);
    const refusals = world.rig.session.refusals();
    await world.rig.session.close();
    expect(world.hits).toEqual([]);
    expect(refusals.map((refusal) => refusal.reason)).toContain(reason);
    if (host !== undefined) expect(refusals.map((refusal) => refusal.host)).toContain(host);
  });
}
