/** Bypass attempts against the egress proxy by a client outside a sandbox: none succeeds, and each is recorded. */
import { expect, test } from "vitest";
import { hello } from "../../packages/runner/test/support/client-hello.ts";
import { ATTACKS } from "./egress-attacks.ts";
import { openEgressTest } from "./egress-upstream.ts";

test("an allowed request reaches the upstream server, and a forbidden one would be detected", async () => {
  const { egress, send, tunnel, port, hits, receivedText } = await openEgressTest({
    names: { "x.cdn.acme.test": ["127.0.0.1"] },
    operator_allows: [],
  });
  const http = send(`GET http://api.acme.test:${port}/x HTTP/1.1\r\nHost: api.acme.test:${port}\r\n\r\n`);
  await http.waitFor(/ok$/);
  await tunnel("api.acme.test", hello({ name: "api.acme.test" }));
  await expect.poll(() => receivedText()).toContain("\x16\x03\x01");
  expect(receivedText()).toContain("GET /x HTTP/1.1\r\nHost: api.acme.test");
  expect({ hits, refusals: egress.session.refusals() }).toEqual({ hits: [], refusals: [] });
  await tunnel("api.acme.test", hello({ name: "api.acme.test" }), "evil");
  await expect.poll(() => hits.length).toBe(1);
  const open = await openEgressTest({
    operator_allows: [`api.acme.test:${port}`],
    names: { "api.acme.test": ["127.0.0.1"] },
  });
  await open.send(`CONNECT api.acme.test:${port} HTTP/1.1\r\n\r\n`).waitFor(/established/);
  await expect.poll(() => hits).toContain("a connection at 127.0.0.1");
});

test("has at least 60 attacks with unique names", () => {
  expect(ATTACKS.length).toBeGreaterThanOrEqual(60);
  expect(new Set(ATTACKS.map(({ name }) => name)).size).toBe(ATTACKS.length);
});

for (const { name, reason, host, options, run } of ATTACKS) {
  test(`refuses: ${name}`, async () => {
    const setup = await openEgressTest(options);
    await run(setup);
    const refusals = setup.egress.session.refusals();
    await setup.egress.session.close();
    expect(setup.hits).toEqual([]);
    expect(refusals.map((refusal) => refusal.reason)).toContain(reason);
    if (host !== undefined) expect(refusals.map((refusal) => refusal.host)).toContain(host);
  });
}
