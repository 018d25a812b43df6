import { networkInterfaces } from "node:os";
import fc from "fast-check";
import { expect, test } from "vitest";
import { addressBytes, publicExceptOwn, publicOnly } from "../../../src/egress/destinations/address.ts";

const REFUSED = [
  "0.0.0.0",
  "0.1.2.3",
  "10.0.0.1",
  "10.255.255.255",
  "100.64.0.1",
  "100.127.255.255",
  "127.0.0.1",
  "127.255.255.254",
  "169.254.0.1",
  "169.254.169.254",
  "168.63.129.16",
  "172.16.0.1",
  "172.31.255.255",
  "192.0.0.8",
  "192.0.2.1",
  "192.88.99.1",
  "192.168.0.1",
  "192.168.255.255",
  "198.18.0.1",
  "198.19.255.255",
  "198.51.100.7",
  "203.0.113.7",
  "224.0.0.1",
  "239.255.255.255",
  "240.0.0.1",
  "255.255.255.255",
  "::",
  "::1",
  "::7f00:1",
  "::ffff:8.8.8.8",
  "::ffff:127.0.0.1",
  "::ffff:7f00:1",
  "::ffff:0:127.0.0.1",
  "64:ff9b::8.8.8.8",
  "64:ff9b::7f00:1",
  "64:ff9b:1::1",
  "100::1",
  "2001::1",
  "2001:0:4136:e378::1",
  "2001:10::1",
  "2001:db8::1",
  "2002:7f00:1::",
  "2002:808:808::1",
  "3fff::1",
  "3fff:fff::1",
  "5f00::1",
  "fc00::1",
  "fd00:ec2::254",
  "fdff::1",
  "fe80::1",
  "fec0::1",
  "ff02::1",
  "ff0e::1",
  "4000::1",
  "8000::1",
  "2606:4700::5efe:127.0.0.1",
  "2606:4700::200:5efe:a00:1",
];
const PUBLIC = [
  "1.1.1.1",
  "8.8.8.8",
  "9.255.255.255",
  "11.0.0.1",
  "100.63.255.255",
  "100.128.0.1",
  "126.255.255.255",
  "128.0.0.1",
  "169.253.255.255",
  "169.255.0.1",
  "172.15.255.255",
  "172.32.0.1",
  "192.167.255.255",
  "192.169.0.1",
  "198.17.255.255",
  "198.20.0.1",
  "223.255.255.255",
  "168.63.129.15",
  "2606:4700:4700::1111",
  "2a00:1450:4001:81b::200e",
  "2001:4860:4860::8888",
  "2003::1",
  "3ffe::1",
];

test.each(REFUSED)("refuses %s", (address) => expect(publicOnly(address)).not.toBeNull());
test.each(PUBLIC)("allows %s", (address) => expect(publicOnly(address)).toBeNull());

test("refuses zones, short, octal, hex and decimal forms", () => {
  for (const text of [
    "fe80::1%eth0",
    "2606:4700::1%lo",
    "127.1",
    "0177.0.0.1",
    "0x7f.1",
    "2130706433",
    "a.test",
    "",
  ]) {
    expect(publicOnly(text)).toBe("not an address");
  }
});

const byte = fc.integer({ min: 0, max: 255 });
const v4 = fc.tuple(byte, byte, byte, byte);

test("parses different notations of an IPv6 address to the same bytes", () => {
  fc.assert(
    fc.property(fc.array(fc.integer({ min: 0, max: 0xffff }), { minLength: 8, maxLength: 8 }), (groups) => {
      const bytes = Uint8Array.from(groups.flatMap((group) => [group >> 8, group & 0xff]));
      const hex = groups.map((group) => group.toString(16));
      const notations = [
        hex.join(":"),
        hex.map((group) => group.padStart(4, "0").toUpperCase()).join(":"),
        `${hex.slice(0, 6).join(":")}:${bytes.slice(12).join(".")}`,
        new URL(`http://[${hex.join(":")}]/`).hostname.slice(1, -1),
      ];
      for (const text of notations) expect(addressBytes(text)).toEqual(bytes);
    }),
  );
});

test("refuses IPv6 addresses that embed an IPv4 address", () => {
  fc.assert(
    fc.property(v4, (four) => {
      const [a, b, c, d] = four.map((value) => value.toString(16).padStart(2, "0"));
      const forms = [
        `::ffff:${four.join(".")}`,
        `::${four.join(".")}`,
        `64:ff9b::${four.join(".")}`,
        `2002:${a}${b}:${c}${d}::1`,
        `2001:0:1:2:3:4:${a}${b}:${c}${d}`,
        `2606:4700::5efe:${four.join(".")}`,
      ];
      for (const text of forms) expect(publicOnly(text)).not.toBeNull();
    }),
  );
});

test("refuses whole blocks: 10/8, 127/8, 169.254/16, 192.168/16, fc00::/7, fe80::/10, ff00::/8", () => {
  fc.assert(
    fc.property(v4, fc.integer({ min: 0, max: 0xffff }), ([, b, c, d], group) => {
      for (const text of [
        `10.${b}.${c}.${d}`,
        `127.${b}.${c}.${d}`,
        `169.254.${c}.${d}`,
        `192.168.${c}.${d}`,
      ]) {
        expect(publicOnly(text)).not.toBeNull();
      }
      const hex = group.toString(16);
      for (const first of [0xfc00 + (b << 1), 0xfe80 + (b >> 2), 0xff00 + b]) {
        expect(publicOnly(`${first.toString(16)}:${hex}::${hex}`)).not.toBeNull();
      }
    }),
  );
});

test("refuses public addresses of this machine", () => {
  const rule = publicExceptOwn(() => ["127.0.0.1", "1.2.3.4", "2606:4700::1"]);
  expect(rule("1.2.3.4")).toBe("this machine");
  expect(rule("2606:4700:0::0001")).toBe("this machine");
  expect(rule("1.2.3.5")).toBeNull();
  const own_interfaces = Object.values(networkInterfaces()).flatMap((list) => list ?? []);
  expect(own_interfaces.length).toBeGreaterThan(0);
  for (const { address } of own_interfaces) expect(publicExceptOwn()(address)).not.toBeNull();
});
