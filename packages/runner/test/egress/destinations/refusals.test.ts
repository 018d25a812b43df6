/** What is refused: the client is told why, and the record says of whom, also when the client has left. */
import { expect, test } from "vitest";
import { connectLine, openRig, PUBLIC, socksConnect, Talk } from "../../support/egress.ts";
import { listen } from "../../support/loopback.ts";
import { httpServer, through } from "../../support/web-server.ts";

test("a refusal tells the client why and the record the name, without control characters", async () => {
  const told: object[] = [];
  const rig = await openRig({ domains: ["a.test"], refused: (refusal) => told.push(refusal) });
  const refused = await through(rig.proxy, "http://Evil.test/");
  expect(refused).toMatchObject({ status: 403, headers: { "backplane-egress": "refused" } });
  expect(refused.body).toContain("allowed_domains");
  const talk = new Talk(rig.proxy).say(socksConnect("a.test\0\n.evil.test", 443));
  await talk.rest();
  expect(rig.session.refusals()).toEqual([
    { host: "evil.test", port: 80, reason: "domain.not_allowed", at: expect.any(Number) },
    { host: "a.test\\u0000\\u000a.evil.test", port: 443, reason: "name.invalid", at: expect.any(Number) },
  ]);
  expect(told).toEqual(rig.session.refusals());
});

test("requests on one connection at once: each refusal names what that one asked for", async () => {
  const { port } = await httpServer();
  const rig = await openRig({ domains: ["a.test"] });
  const get = (host: string) => `GET http://${host}/ HTTP/1.1\r\nHost: ${host}\r\n\r\n`;
  const talk = new Talk(rig.proxy).say(get("evil.test") + get("worse.test") + get(`a.test:${port}`));
  await talk.hear(/403/);
  expect(talk.text).toContain("evil.test");
  expect(rig.session.refusals().map(({ host, reason }) => `${host} ${reason}`)).toEqual([
    "evil.test domain.not_allowed",
    "worse.test domain.not_allowed",
  ]);
});

test.each(["http", "connect", "socks"])(
  "%s: who leaves before the answer is recorded all the same",
  async (way) => {
    const { promise: looked, resolve: look } = Promise.withResolvers<string[]>();
    const rig = await openRig({ domains: ["a.test"], resolve: () => looked });
    const talk = new Talk(rig.proxy);
    if (way === "socks") talk.say(socksConnect("a.test", 443));
    else if (way === "connect") talk.say(connectLine("a.test:443"));
    else talk.say("GET http://a.test/ HTTP/1.1\r\nHost: a.test\r\n\r\n");
    while (rig.resolved.length === 0) await new Promise((resolve) => setTimeout(resolve, 2));
    talk.socket.resetAndDestroy();
    while (rig.session.counts().sockets > 0) await new Promise((resolve) => setTimeout(resolve, 2));
    look(["169.254.169.254"]);
    await new Promise(setImmediate);
    expect(rig.session.refusals()).toMatchObject([{ host: "a.test", reason: "address.forbidden" }]);
  },
);

test("nobody answers, no such name: the client is told, nothing is a refusal", async () => {
  const { server, port } = await listen(() => {}, PUBLIC);
  await new Promise((resolve) => server.close(resolve));
  const rig = await openRig({
    domains: ["*"],
    resolve: async (name) => (name === "none.test" ? [] : [PUBLIC]),
  });
  expect((await through(rig.proxy, `http://a.test:${port}/`)).status).toBe(502);
  expect((await through(rig.proxy, "http://none.test/")).status).toBe(502);
  const talk = new Talk(rig.proxy).say(connectLine(`a.test:${port}`));
  expect(await talk.rest()).toContain("502");
  expect(rig.session.counts()).toMatchObject({ refused: 0 });
});
