/** With the network `none`, no packet of any address family leaves and no socket of the host can be reached. */
import { createSocket } from "node:dgram";
import { once } from "node:events";
import { createServer, type Server } from "node:net";
import { networkInterfaces } from "node:os";
import { expect, onTestFinished, test } from "vitest";
import { openTestSandbox } from "../../packages/runner/test/support/sandbox.ts";
import { verifies } from "../support/verifies.ts";
import { createSandboxedAttacks } from "./egress-sandboxed.ts";
import { attack, weakenSandbox } from "./attack-programs.ts";

/** Listeners of the host that record connections. */
async function startListeners() {
  const connections: string[] = [];
  const listen = async (server: Server, address: object) => {
    server.listen(address);
    await once(server, "listening");
    onTestFinished(() => void server.close());
  };
  const recorder = (kind: string) =>
    createServer((socket) => {
      connections.push(kind);
      socket.destroy();
    });
  const tcp = recorder("tcp");
  await listen(tcp, { host: "0.0.0.0", port: 0 });
  const abstract = `backplane-${process.pid}-${Math.random().toString(36).slice(2)}`;
  await listen(recorder("unix"), { path: `\0${abstract}` });
  const udp = createSocket("udp4", () => connections.push("udp"));
  udp.bind(0, "0.0.0.0");
  await once(udp, "listening");
  onTestFinished(() => void udp.close());
  const { port } = tcp.address() as { port: number };
  const addresses = Object.values(networkInterfaces())
    .flatMap((list) => list ?? [])
    .filter(({ family, internal }) => family === "IPv4" && !internal)
    .map(({ address }) => address);
  return { connections, ports: [String(port), String(udp.address().port), abstract], addresses };
}

verifies(
  "sandbox.net",
  "without network, reaches nothing by TCP, UDP, DNS, IPv6, unix sockets or inherited descriptors",
  async () => {
    const { connections, ports, addresses } = await startListeners();
    const { run } = await createSandboxedAttacks(0, ["network.py"]);
    const program = ["/usr/bin/python3", "/plugin/network.py", ...ports, "far", ...addresses];
    for (const name of ["isolated", "worker"] as const) {
      const { stdout, egress } = await run(program, { class: name });
      const findings = JSON.parse(stdout) as { tries: number; hits: string[]; interfaces: string[] };
      expect(findings.tries).toBeGreaterThan(55 + 1_000);
      expect(findings.hits).toEqual([]);
      expect(findings.interfaces).toEqual(["lo"]);
      expect(connections).toEqual([]);
      const recorded = egress?.refusals.map(({ host }) => host);
      for (const host of ["169.254.169.254", "10.0.0.1", "8.8.8.8", "fd00:ec2::254", "gateway"]) {
        expect(recorded).toContain(host);
      }
    }
  },
  60_000,
);

test("control: the listeners receive the same attempts in the host's network", async () => {
  const { connections, ports, addresses } = await startListeners();
  // The self-test opens listeners; in the host's network their ports may be in use or reserved for root.
  const sandbox = await openTestSandbox(
    weakenSandbox(
      ["stage.c", " | CLONE_NEWNET", ""],
      // Without this change, sandbox-init would make every address local for the whole machine.
      ["first-process.c", "  raise_loopback();\n  open_trace();", "  (void)open_trace;"],
      ["listeners.c", "htons((uint16_t)strtoul(space + 1, NULL, 10))", "0"],
    ),
  );
  const { findings } = await attack(sandbox, "network.py", [...ports, "near", ...addresses]);
  expect(findings.hits).toContain("tcp 127.0.0.1");
  expect(new Set(connections)).toEqual(new Set(["tcp", "udp", "unix"]));
}, 120_000);
