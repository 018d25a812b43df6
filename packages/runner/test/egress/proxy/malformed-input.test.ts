import fc from "fast-check";
import { expect, test } from "vitest";
import { hello } from "../../support/client-hello.ts";
import { connectLine, createTestEgress, PUBLIC, socksConnect, TestClient } from "../../support/egress.ts";
import { listen } from "../../support/loopback.ts";

test("closes the connection of a client that sends random bytes, alone or within a valid request", async () => {
  const { port } = await listen((socket) => {
    socket.on("data", () => socket.end("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"));
  }, PUBLIC);
  const { proxy, session } = await createTestEgress({
    domains: ["a.test"],
    limits: { total_connections: 1e6 },
  });
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
    fc.asyncProperty(noisy, async ([bytes, position, noise, whole]) => {
      const at = position % bytes.length;
      const input = whole
        ? Buffer.from(noise)
        : Buffer.concat([bytes.subarray(0, at), noise, bytes.subarray(at + (noise.length >> 1))]);
      const client = new TestClient(proxy).send(input);
      client.socket.end();
      await client.readToEnd();
    }),
    { numRuns: 400 },
  );
  const client = new TestClient(proxy).send(valid[0]!);
  expect(await client.waitFor(/ok$/)).toContain("200 OK");
  client.socket.destroy();
  await expect.poll(() => session.counts().sockets).toBe(0);
});

test("explains an https URL that was sent without a tunnel", async () => {
  const { proxy, session } = await createTestEgress({ domains: ["a.test"] });
  const client = new TestClient(proxy).send("POST https://a.test/events HTTP/1.1\r\nHost: a.test\r\n\r\n");
  expect(await client.readToEnd()).toMatch(/403 .*CONNECT/s);
  expect(session.refusals()).toMatchObject([{ host: "a.test", port: 443, reason: "tunnel.missing" }]);
});

test("closes the connection whose request cannot be serialized again and records the refusal", async () => {
  const { port } = await listen((socket) => socket.resume(), PUBLIC);
  const { proxy, session } = await createTestEgress({ domains: ["a.test"] });
  const client = new TestClient(proxy).send(`GET http://a.test:${port}/ HTTP/1.1\r\nX: a\x7fb\r\n\r\n`);
  await client.readToEnd();
  expect(session.refusals()).toMatchObject([{ host: "a.test", port, reason: "request.malformed" }]);
});
