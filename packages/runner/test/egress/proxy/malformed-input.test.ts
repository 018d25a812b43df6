import fc from "fast-check";
import { expect, test } from "vitest";
import { hello } from "../../support/client-hello.ts";
import { connectLine, openRig, PUBLIC, socksConnect, Talk } from "../../support/egress.ts";
import { listen } from "../../support/loopback.ts";

/** Whatever is said to it, the proxy lets go of that connection, and serves the next. */
test("noise in place of a request, or in the middle of one", async () => {
  const { port } = await listen((socket) => {
    socket.on("data", () => socket.end("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"));
  }, PUBLIC);
  const { proxy, session } = await openRig({ domains: ["a.test"], limits: { total_connections: 1e6 } });
  const url = `http://a.test:${port}/`;
  const valid = [
    Buffer.from(`GET ${url} HTTP/1.1\r\nHost: a.test:${port}\r\nX: y\r\n\r\n`),
    Buffer.from(`POST ${url} HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n`),
    Buffer.from(`GET ${url} HTTP/1.1\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n`),
    Buffer.concat([Buffer.from(connectLine(`a.test:${port}`)), hello({ name: "a.test" })]),
    Buffer.concat([socksConnect("a.test", port), hello({ name: "a.test" })]),
  ];
  const noisy = fc.tuple(fc.constantFrom(...valid), fc.nat(), fc.uint8Array({ maxLength: 12 }), fc.boolean());
  await fc.assert(
    fc.asyncProperty(noisy, async ([bytes, place, noise, whole]) => {
      const at = place % bytes.length;
      const said = whole
        ? Buffer.from(noise)
        : Buffer.concat([bytes.subarray(0, at), noise, bytes.subarray(at + (noise.length >> 1))]);
      const talk = new Talk(proxy).say(said);
      talk.socket.end();
      await talk.rest();
    }),
    { numRuns: 400 },
  );
  const talk = new Talk(proxy).say(valid[0]!);
  expect(await talk.hear(/ok$/)).toContain("200 OK");
  talk.socket.destroy();
  await expect.poll(() => session.counts().sockets).toBe(0);
});

test("what one parser takes and the other would not write ends that connection alone", async () => {
  const { port } = await listen((socket) => socket.resume(), PUBLIC);
  const { proxy, session } = await openRig({ domains: ["a.test"] });
  const talk = new Talk(proxy).say(`GET http://a.test:${port}/ HTTP/1.1\r\nX: a\x7fb\r\n\r\n`);
  await talk.rest();
  expect(session.refusals()).toMatchObject([{ host: "a.test", port, reason: "request.malformed" }]);
});
