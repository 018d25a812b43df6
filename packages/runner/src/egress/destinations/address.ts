/**
 * The addresses that a plugin may connect to: public unicast addresses only. Addresses of this machine, its network
 * and cloud metadata services are refused, even when an IPv6 address embeds them as IPv4.
 */
import { isIP } from "node:net";
import { networkInterfaces } from "node:os";

/** Null if the address is allowed, otherwise a short reason. */
export type AddressRule = (address: string) => string | null;

/** Network, prefix length, purpose (IANA special-purpose address registry). */
const SPECIAL_V4: readonly (readonly [string, number, string])[] = [
  ["0.0.0.0", 8, "unspecified"],
  ["10.0.0.0", 8, "private"],
  ["100.64.0.0", 10, "carrier network"],
  ["127.0.0.0", 8, "loopback"],
  ["168.63.129.16", 32, "cloud metadata"],
  ["169.254.0.0", 16, "link-local"],
  ["172.16.0.0", 12, "private"],
  ["192.0.0.0", 24, "reserved"],
  ["192.0.2.0", 24, "documentation"],
  ["192.88.99.0", 24, "6to4 relay"],
  ["192.168.0.0", 16, "private"],
  ["198.18.0.0", 15, "benchmarking"],
  ["198.51.100.0", 24, "documentation"],
  ["203.0.113.0", 24, "documentation"],
  ["224.0.0.0", 4, "multicast"],
  ["240.0.0.0", 4, "reserved"],
];

/**
 * Special ranges within 2000::/3. Everything outside 2000::/3 (mapped, NAT64, unique local, link-local, multicast) is
 * refused.
 */
const SPECIAL_V6: readonly (readonly [string, number, string])[] = [
  ["2001::", 23, "protocol assignment"],
  ["2001:db8::", 32, "documentation"],
  ["2002::", 16, "6to4"],
  ["3fff::", 20, "documentation"],
];

const RULES_V4 = SPECIAL_V4.map(([net, length, purpose]) => ({ net: bytesOfV4(net)!, length, purpose }));
const RULES_V6 = SPECIAL_V6.map(([net, length, purpose]) => ({ net: bytesOfV6(net)!, length, purpose }));

export const publicOnly: AddressRule = (address) => {
  const bytes = addressBytes(address);
  if (bytes === null) return "not an address";
  if (bytes.length === 4)
    return RULES_V4.find((rule) => isInSubnet(bytes, rule.net, rule.length))?.purpose ?? null;
  if ((bytes[0]! & 0xe0) !== 0x20) return "not global unicast";
  // ISATAP: an IPv4 address after 0000:5efe or 0200:5efe.
  if ((bytes[8]! & 0xfd) === 0 && bytes[9] === 0 && bytes[10] === 0x5e && bytes[11] === 0xfe) return "ISATAP";
  return RULES_V6.find((rule) => isInSubnet(bytes, rule.net, rule.length))?.purpose ?? null;
};

/** Also refuses this machine's own public addresses, where the gateway and other services listen. */
export function publicExceptOwn(listAddresses: () => string[] = listOwnAddresses): AddressRule {
  return (address) => {
    const reason = publicOnly(address);
    if (reason !== null) return reason;
    const bytes = addressBytes(address)!;
    const own_addresses = listAddresses().map(addressBytes);
    return own_addresses.some(
      (own_address) =>
        own_address?.length === bytes.length && isInSubnet(bytes, own_address, bytes.length * 8),
    )
      ? "this machine"
      : null;
  };
}

function listOwnAddresses(): string[] {
  return Object.values(networkInterfaces()).flatMap((list) => (list ?? []).map(({ address }) => address));
}

/**
 * 4 or 16 bytes. Null for text that is not an address, and for an address with a zone. IPv4 needs four decimal parts
 * without leading zeros.
 */
export function addressBytes(text: string): Uint8Array | null {
  const version = isIP(text);
  if (version === 4) return bytesOfV4(text);
  return version === 6 && !text.includes("%") ? bytesOfV6(text) : null;
}

function isInSubnet(address: Uint8Array, net: Uint8Array, length: number): boolean {
  const whole = length >> 3;
  for (let at = 0; at < whole; at++) if (address[at] !== net[at]) return false;
  const rest = length & 7;
  return rest === 0 || (address[whole]! ^ net[whole]!) >> (8 - rest) === 0;
}

function bytesOfV4(text: string): Uint8Array | null {
  const parts = text.split(".");
  return parts.length === 4 ? Uint8Array.from(parts, Number) : null;
}

function bytesOfV6(text: string): Uint8Array | null {
  const [left, right] = text.split("::", 2) as [string, string?];
  const head = parseGroups(left);
  const tail = right === undefined ? [] : parseGroups(right);
  const gap = 16 - head.length - tail.length;
  if (gap < 0 || (right === undefined && gap !== 0)) return null;
  const bytes = new Uint8Array(16);
  bytes.set(head);
  bytes.set(tail, 16 - tail.length);
  return bytes;
}

function parseGroups(text: string): number[] {
  if (text === "") return [];
  return text.split(":").flatMap((group) => {
    if (group.includes(".")) return [...bytesOfV4(group)!];
    const value = Number.parseInt(group, 16);
    return [value >> 8, value & 0xff];
  });
}
