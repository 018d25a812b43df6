import { expect, test } from "vitest";
import {
  formatDestination,
  hostKind,
  readAbsolute,
  readAuthority,
} from "../../../src/egress/destinations/destination.ts";

test.each(["a.test", "xn--bcher-kva.test", "a_b.test", "1.a.test", "localhost", "0xabc.test", "a.123x"])(
  "classifies %s as a name",
  (host) => expect(hostKind(host)).toBe("name"),
);

/** IP addresses, and names whose last label is a number, which a resolver may parse as an address. */
test.each([
  "127.0.0.1",
  "2130706433",
  "0177.0.0.1",
  "0x7f.0.0.1",
  "0x7f000001",
  "127.1",
  "127.0.1",
  "0",
  "0x",
  "017700000001",
  "1.2.3.4.5",
  "acme.test.1",
  "a.0x7f",
  "::1",
  "::ffff:127.0.0.1",
  "256.1.1.1",
  "00000177.0.0.1",
])("classifies %s as an address", (host) => expect(hostKind(host)).toBe("address"));

test.each([
  "",
  ".",
  "a.test.",
  ".a.test",
  "a..test",
  "-a.test",
  "a-.test",
  "a test",
  "a.test\0.evil",
  "a.test\n",
  "b\u00fccher.test",
  "a.test%2eevil",
  "a@b.test",
  "\u0061\uff0etest",
  "\u2488.test",
  "127\u30020.0.1",
  "*.a.test",
  "[::1]",
  "fe80::1%lo\0",
  "a/b",
  "x".repeat(64),
  `${"a.".repeat(126)}test`,
])("classifies %j as invalid", (host) => expect(hostKind(host)).toBe("invalid"));

test("parses host and port, and rejects malformed authorities", () => {
  expect(readAuthority("API.acme.test:443", null)).toEqual({ host: "api.acme.test", port: 443 });
  expect(readAuthority("[::1]:80", null)).toEqual({ host: "::1", port: 80 });
  expect(readAuthority("a.test", 80)).toEqual({ host: "a.test", port: 80 });
  const malformed = [
    "a.test",
    "a.test:",
    "a.test:0",
    "a.test:65536",
    "a.test:-1",
    "a.test:4 4",
    "a.test:0x50",
    "a:b:80",
    "u@a.test:80",
    "[a.test]:80",
    "::1:80",
    "a.test:80/",
    "a.test\\:80",
    "[::1",
  ];
  for (const text of malformed) expect(readAuthority(text, null)).toBeNull();
});

test("parses absolute http URIs only, without credentials", () => {
  expect(readAbsolute("http://A.test/x?y")).toEqual({ host: "a.test", port: 80, path: "/x?y" });
  expect(readAbsolute("HTTP://a.test:81?y")).toEqual({ host: "a.test", port: 81, path: "/?y" });
  for (const url of [
    "https://a.test/",
    "ftp://a.test/",
    "/x",
    "*",
    "http:a.test",
    "http:///x",
    "http://u:p@a.test/",
  ]) {
    const read = readAbsolute(url);
    expect(read === null || hostKind(read.host) === "invalid").toBe(true);
  }
  expect(readAbsolute("http://a.test/#x")).toBeNull();
  expect(readAbsolute("http://a.test\\@evil.test/")).toBeNull();
});

test("formats a destination in its canonical form", () => {
  expect(formatDestination({ host: "::1", port: 80 })).toBe("[::1]:80");
  expect(formatDestination({ host: "a.test", port: 80 }, 80)).toBe("a.test");
});
