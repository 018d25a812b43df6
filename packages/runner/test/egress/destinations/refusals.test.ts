/** Refused connections: the reason that the client receives and the recorded host. */
import { expect, test } from "vitest";
import { connectLine, createTestEgress, PUBLIC, socksConnect, TestClient } from "../../support/egress.ts";
import { listen } from "../../support/loopback.ts";
import { requestThroughProxy, startHttpServer } from "../../support/web-server.ts";

test("tells the client the reason and records the host with control characters escaped", async () => {
  const reported: object[] = [];
  const egress = await createTestEgress({
    domains: ["a.test"],
    refused: (refusal) => reported.push(refusal),
  });
  const refused = await requestThroughProxy(egress.proxy, "http://Evil.test/");
  expect(refused).toMatchObject({ status: 403, headers: { "backplane-egress": "refused" } });
  expect(refused.body).toContain("allowed_domains");
  const client = new TestClient(egress.proxy).send(socksConnect("a.test\0\n.evil.test", 443));
  await client.readToEnd();
  expect(egress.session.refusals()).toEqual([
    { host: "evil.test", port: 80, reason: "domain.not_allowed", at: expect.any(Number) },
    { host: "a.test\\u0000\\u000a.evil.test", port: 443, reason: "name.invalid", at: expect.any(Number) },
  ]);
  expect(reported).toEqual(egress.session.refusals());
});

test("records the host of each refused request on one connection", async () => {
  const { port } = await startHttpServer();
  const egress = await createTestEgress({ domains: ["a.test"] });
  const get = (host: string) => `GET http://${host}/ HTTP/1.1\r\nHost: ${host}\r\n\r\n`;
  const client = new TestClient(egress.proxy).send(
    get("evil.test") + get("worse.test") + get(`a.test:${port}`),
  );
  await client.waitFor(/403/);
  expect(client.text).toContain("evil.test");
  expect(egress.session.refusals().map(({ host, reason }) => `${host} ${reason}`)).toEqual([
    "evil.test domain.not_allowed",
    "worse.test domain.not_allowed",
  ]);
});

test.each(["http", "connect", "socks"])(
  "%s: records a refusal after the client has disconnected",
  async (protocol) => {
    const { promise: addresses, resolve: resolveName } = Promise.withResolvers<string[]>();
    const egress = await createTestEgress({ domains: ["a.test"], resolve: () => addresses });
    const client = new TestClient(egress.proxy);
    if (protocol === "socks") client.send(socksConnect("a.test", 443));
    else if (protocol === "connect") client.send(connectLine("a.test:443"));
    else client.send("GET http://a.test/ HTTP/1.1\r\nHost: a.test\r\n\r\n");
    while (egress.resolved.length === 0) await new Promise((resolve) => setTimeout(resolve, 2));
    client.socket.resetAndDestroy();
    while (egress.session.counts().sockets > 0) await new Promise((resolve) => setTimeout(resolve, 2));
    resolveName(["169.254.169.254"]);
    await new Promise(setImmediate);
    expect(egress.session.refusals()).toMatchObject([{ host: "a.test", reason: "address.forbidden" }]);
  },
);

test("reports an unreachable host and an unknown name without recording a refusal", async () => {
  const { server, port } = await listen(() => {}, PUBLIC);
  await new Promise((resolve) => server.close(resolve));
  const egress = await createTestEgress({
    domains: ["*"],
    resolve: async (name) => (name === "none.test" ? [] : [PUBLIC]),
  });
  expect((await requestThroughProxy(egress.proxy, `http://a.test:${port}/`)).status).toBe(502);
  expect((await requestThroughProxy(egress.proxy, "http://none.test/")).status).toBe(502);
  const client = new TestClient(egress.proxy).send(connectLine(`a.test:${port}`));
  expect(await client.readToEnd()).toContain("502");
  expect(egress.session.counts()).toMatchObject({ refused: 0 });
});
