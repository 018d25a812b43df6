import { BlockList, isIP } from "node:net";

/** Whether an IP address belongs to this machine or its network. */
export function isPrivateAddress(address: string): boolean {
  const version = isIP(address);
  return version !== 0 && PRIVATE.check(address, version === 4 ? "ipv4" : "ipv6");
}

const PRIVATE = createPrivateRanges();

function createPrivateRanges(): BlockList {
  const list = new BlockList();
  for (const [net, bits] of [
    ["0.0.0.0", 8],
    ["10.0.0.0", 8],
    ["100.64.0.0", 10],
    ["127.0.0.0", 8],
    ["169.254.0.0", 16],
    ["172.16.0.0", 12],
    ["192.168.0.0", 16],
  ] as const)
    list.addSubnet(net, bits, "ipv4");
  list.addAddress("::", "ipv6");
  list.addAddress("::1", "ipv6");
  list.addSubnet("fc00::", 7, "ipv6");
  list.addSubnet("fe80::", 10, "ipv6");
  return list;
}
