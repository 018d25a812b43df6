import { expect, test } from "vitest";
import { type DirectAttempt, refusalOf } from "../../../src/egress/destinations/direct-attempt.ts";

const QUERY: DirectAttempt = { protocol: "udp", address: "127.0.0.1", port: 53, count: 1, question: null };
const label = (text: string) => Buffer.concat([Buffer.from([text.length]), Buffer.from(text, "latin1")]);
const TYPE_A = Buffer.from([0, 0, 1, 0, 1]);

test("records the name that a DNS query looks up", () => {
  const question = Buffer.concat([label("API"), label("acme"), label("test"), TYPE_A]);
  expect(refusalOf({ ...QUERY, question })).toEqual({
    destination: { host: "api.acme.test", port: 53 },
    reason: "direct.lookup",
  });
});

test.each([
  ["no name", TYPE_A],
  ["a name that is cut off", label("acme")],
  ["a label that is cut off", Buffer.from([40, 97])],
  ["a compression pointer", Buffer.from([0xc0, 0x0c, 0, 1, 0, 1])],
  [
    "a pointer that would be a long label",
    Buffer.concat([Buffer.from([0xc0]), Buffer.alloc(0xc0, "a"), TYPE_A]),
  ],
  ["no bytes", Buffer.alloc(0)],
])("records the name server if the question contains %s", (_, question) => {
  expect(refusalOf({ ...QUERY, question })).toEqual({
    destination: { host: "127.0.0.1", port: 53 },
    reason: "direct.datagram",
  });
});
