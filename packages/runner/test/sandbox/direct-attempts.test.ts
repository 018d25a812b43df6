/** Connections that a process makes without the proxy end inside its sandbox and are recorded for its call. */
import { readdirSync, readlinkSync } from "node:fs";
import { expect, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { createConfinedTestRunner } from "../support/confined-runner.ts";
import { listen } from "../support/loopback.ts";
import { vai } from "../support/request.ts";
import { until } from "../support/runner.ts";

const isolated = { class: "isolated" } as const;
const PRIVATE = ["10.0.0.5", "127.0.0.1", "169.254.169.254", "192.168.1.1", "fd00::5", "::1"];

verifies(
  "egress.trace",
  "records each connection, datagram and name lookup that ends inside the sandbox",
  async () => {
    const test_runner = createConfinedTestRunner();
    const tcp = [...PRIVATE, "1.1.1.1", "2606:4700:4700::1111"].map((host) => [host, 5_432]);
    const udp = [
      ["10.0.0.6", 8_125],
      ["fd00::6", 8_125],
    ];
    for (const options of [isolated, {}]) {
      for (const network of ["none", "egress"] as const) {
        const input = { tcp, udp, lookup: ["db.internal.test"] };
        const { result, egress } = await test_runner.run(
          vai("dials", { ...options, grant: { network }, input }),
        );
        const { codes } = result as { codes: string[] };
        expect(codes.slice(0, -1)).toEqual([...tcp, ...udp].map(() => "ECONNREFUSED"));
        expect(codes.at(-1)).toMatch(/^E(AI_AGAIN|NOTFOUND)$/);
        expect(
          new Set(egress?.refusals.map(({ host, port, reason }) => `${host} ${port} ${reason}`)),
        ).toEqual(
          new Set([
            ...tcp.map(([host, port]) => `${host} ${port} direct.connection`),
            ...udp.map(([host, port]) => `${host} ${port} direct.datagram`),
            "db.internal.test 53 direct.lookup",
          ]),
        );
      }
    }
  },
);

test("records a direct connection to a port of an allowed name as a literal address", async () => {
  const test_runner = createConfinedTestRunner();
  const grant = { network: "egress" as const, allowed_domains: ["a.test"] };
  const input = { tcp: [["10.0.0.5", 443]] };
  const { egress } = await test_runner.run(vai("dials", { ...isolated, grant, input }));
  expect(egress?.refusals).toMatchObject([{ host: "10.0.0.5", port: 443, reason: "address.literal" }]);
});

test("reaches an address directly if the operator and the grant allow it", async () => {
  const { port } = await listen((socket) => socket.end());
  const address = `127.0.0.1:${port}`;
  const input = { tcp: [["127.0.0.1", port]] };
  const dial = async (operator_allows: string[], allowed_domains: string[]) => {
    const test_runner = createConfinedTestRunner({ egress: { operator_allows } });
    const grant = { network: "egress" as const, allowed_domains };
    const { egress } = await test_runner.run(vai("dials", { ...isolated, grant, input }));
    return egress?.refusals.map(({ reason }) => reason) ?? null;
  };
  expect(await dial([address], [address])).toBeNull();
  expect(await dial([], [address])).toEqual(["address.literal"]);
  expect(await dial([address], [])).toEqual(["direct.connection"]);
});

test("counts repeated attempts at one target and lists a bounded number of targets", async () => {
  const test_runner = createConfinedTestRunner();
  const runDials = (input: object) => test_runner.run(vai("dials", { ...isolated, input } as never));
  const repeated = await runDials({ tcp: [["10.0.0.5", 80]], times: 20 });
  expect(repeated.egress).toMatchObject({
    refused: 20,
    refusals: [{ host: "10.0.0.5", port: 80, count: 20 }],
  });
  const scan = await runDials({
    tcp: Array.from({ length: 300 }, (_, index) => ["10.0.0.5", 1_000 + index]),
  });
  expect(scan.egress?.refused).toBe(300);
  expect(scan.egress?.refusals.length).toBeLessThanOrEqual(64);
});

test("assigns the attempts of a shared process to the call that made them", async () => {
  const test_runner = createConfinedTestRunner();
  const runDials = (input: object) => test_runner.run(vai("dials", { input } as never));
  const hostsOf = async (input: object) => {
    const { egress } = await runDials(input);
    return egress?.refusals.map(({ host }) => host) ?? null;
  };
  expect(await hostsOf({ tcp: [["10.0.0.1", 80]] })).toEqual(["10.0.0.1"]);
  expect(await hostsOf({})).toBeNull();
  const tcp = ["10.0.0.2", "10.0.0.3", "10.0.0.4"].map((host) => [host, 80]);
  expect(await hostsOf({ tcp })).toEqual(["10.0.0.2", "10.0.0.3", "10.0.0.4"]);
  expect(test_runner.runner.health().processes).toBe(1);
});

test("does not record a connection that a socket inside the sandbox accepts, nor its reset", async () => {
  const test_runner = createConfinedTestRunner();
  const grant = { network: "egress" as const, allowed_domains: [] };
  const input = { tcp: [["127.0.0.1", 3_128]] };
  const { result, egress } = await test_runner.run(vai("dials", { ...isolated, grant, input }));
  expect({ result, egress }).toEqual({ result: { codes: ["connected"] }, egress: null });
});

test("lists refused direct connections and lookups when a process does not start", async () => {
  const test_runner = createConfinedTestRunner();
  const failed = await test_runner.run(vai("dials-at-start", isolated));
  expect(failed).toMatchObject({
    status: "failed",
    error: {
      message: expect.stringMatching(
        /refused while it started: .*db\.internal\.test \(the sandbox has no name server/,
      ),
    },
    egress: { refusals: [{ host: "10.0.0.5" }, { host: "db.internal.test" }] },
  });
});

test("leaves no descriptor of the network namespace open after the exit", async () => {
  const test_runner = createConfinedTestRunner();
  await test_runner.run(vai("dials", { ...isolated, input: { tcp: [["10.0.0.5", 80]] } }));
  await until(() => test_runner.runner.health().processes === 0);
  const open = () =>
    readdirSync("/proc/self/fd").filter((fd) => {
      try {
        return readlinkSync(`/proc/self/fd/${fd}`).endsWith("/net/dev");
      } catch {
        return false;
      }
    });
  await until(() => open().length === 0);
  expect(open()).toEqual([]);
});
